"""Shapes of the tensors in the library.

Every map acts pointwise on the leading axes: a chain has states of shape ``(batch,)``, a sequence
has ``(batch, length)``. Times have the same axes. The positions of a sequence share one pair of
times, which may have shape ``(batch, 1)``; observed positions are at (1, 1).
"""

from jaxtyping import Float, Int
from torch import Tensor

Tokens = Int[Tensor, "*batch"]  # symbols 0, ..., n-1
Times = Float[Tensor, "*batch"]  # r <= t in [0, 1]
Point = Float[Tensor, "*batch n"]  # a point of R^n: one-hot for a symbol
State = Tokens | Point  # discrete or continuous, see state.py
Logits = Float[Tensor, "*batch n"]
Probs = Float[Tensor, "*batch n"]  # a law on the n symbols in the last axis
Matrix = Float[Tensor, "*batch n n"]  # M[y, x]: columns are indexed by the start state
