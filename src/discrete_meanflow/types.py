"""Shapes of the tensors that walk through the library.

Every map acts pointwise on the leading axes: a chain has states of shape ``(batch,)``,
a sequence has ``(batch, length)``. Times carry the same axes: positions of a sequence are at one
pair of times, which may be given once, but for those that are known, at (1, 1).
"""

from jaxtyping import Float, Int
from torch import Tensor

State = Int[Tensor, "*batch"]  # x, y in S = {0, ..., n-1}
Times = Float[Tensor, "*batch"]  # r <= t in [0, 1]
Point = Float[Tensor, "*batch n"]  # a soft state, in place of delta_x
Logits = Float[Tensor, "*batch n"]
Probs = Float[Tensor, "*batch n"]  # a law on S in the last axis
Matrix = Float[Tensor, "*batch n n"]  # M[y, x]: columns are indexed by the start state
