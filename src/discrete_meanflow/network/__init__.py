"""Networks: maps from a point and two times (r, t) to logits."""

from discrete_meanflow.network.causal import (
    CausalLogitMask as CausalLogitMask,
    CausalTransformer as CausalTransformer,
)
from discrete_meanflow.network.diagonal import DiagonalNetwork as DiagonalNetwork
from discrete_meanflow.network.dit import DiT as DiT
from discrete_meanflow.network.flat import FlatMLP as FlatMLP
from discrete_meanflow.network.logit_mask import LogitMask as LogitMask
from discrete_meanflow.network.mlp import MLP as MLP
from discrete_meanflow.network.time_embedding import SinusoidalEmbedding as SinusoidalEmbedding
from discrete_meanflow.network.timeless import TimelessNetwork as TimelessNetwork
from discrete_meanflow.network.transformer import Transformer as Transformer
