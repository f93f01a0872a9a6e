"""Networks: maps from a point and two times (r, t) to logits."""

from discrete_meanflow.network.diagonal import DiagonalNetwork
from discrete_meanflow.network.dit import DiT
from discrete_meanflow.network.flat import FlatMLP
from discrete_meanflow.network.logit_mask import LogitMask
from discrete_meanflow.network.mlp import MLP
from discrete_meanflow.network.time_embedding import SinusoidalEmbedding
from discrete_meanflow.network.transformer import Transformer

__all__ = [
    "MLP",
    "DiT",
    "DiagonalNetwork",
    "FlatMLP",
    "LogitMask",
    "SinusoidalEmbedding",
    "Transformer",
]
