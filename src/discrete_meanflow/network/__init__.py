"""Maps (state, r, t) -> logits. A network knows no probability; a kernel gives it a meaning."""

from discrete_meanflow.network.adaptive import AdaptiveTransformer
from discrete_meanflow.network.flat import FlatMLP
from discrete_meanflow.network.mlp import MLP
from discrete_meanflow.network.restricted import Restricted
from discrete_meanflow.network.single_time import SingleTime
from discrete_meanflow.network.time_embedding import Sinusoidal
from discrete_meanflow.network.transformer import Transformer

__all__ = [
    "MLP",
    "AdaptiveTransformer",
    "FlatMLP",
    "Restricted",
    "SingleTime",
    "Sinusoidal",
    "Transformer",
]
