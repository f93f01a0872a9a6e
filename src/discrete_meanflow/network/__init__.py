"""Maps (state, r, t) -> logits. A network knows no probability; a kernel gives it a meaning."""

from discrete_meanflow.network.mlp import MLP
from discrete_meanflow.network.time_embedding import Sinusoidal

__all__ = ["MLP", "Sinusoidal"]
