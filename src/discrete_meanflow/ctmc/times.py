"""Validated pairs of times."""

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Times


def as_times(r: Tensor | float, t: Tensor | float) -> tuple[Times, Times]:
    """r and t as float64 tensors of one shape; raises unless 0 <= r <= t <= 1."""
    times = (torch.as_tensor(s, dtype=torch.float64) for s in (r, t))
    first, last = torch.broadcast_tensors(*times)
    if not bool(((first >= 0) & (last <= 1)).all()):
        low, high = first.min().item(), last.max().item()
        raise InputError(f"times must lie in [0, 1], got r = {low:g} and t = {high:g}")
    if not bool((first <= last).all()):
        worst = (first - last).argmax()
        a, b = (s.flatten()[worst].item() for s in (first, last))
        raise InputError(f"r must not exceed t, got r = {a:g} > t = {b:g}")
    return first, last
