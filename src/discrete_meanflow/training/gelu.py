"""GELU's tanh form, ``x (1 + tanh u) / 2``, written as the equal ``x sigmoid(2u)``.

A GPU has an instruction for exp; tanh takes several times as long.
"""

import math

import torch
from torch import Tensor

STEEP, CUBIC = 2 * (2 / math.pi) ** 0.5, 0.044715  # 2u = STEEP (x + CUBIC x^3)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate != "tanh":
        return NotImplemented  # traced unchanged
    wide = _wide(x)
    return (wide * _gate(wide)).to(x.dtype)


def gelu_backward(gradient: Tensor, x: Tensor, approximate: str = "none") -> Tensor:
    """``gradient (s + x s (1 - s) 2u')`` with s = sigmoid(2u)."""
    if approximate != "tanh":
        return NotImplemented
    wide = _wide(x)
    s = _gate(wide)
    slope = s + wide * s * (1 - s) * STEEP * (1 + 3 * CUBIC * wide**2)
    return (gradient * slope).to(gradient.dtype)


def _gate(x: Tensor) -> Tensor:
    return torch.sigmoid(STEEP * (x + CUBIC * x**3))


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.element_size() < 4 else x
