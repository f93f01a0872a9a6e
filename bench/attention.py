"""Attention forward and back by each of torch's fused kernels, against that written out.

    python bench/attention.py

bfloat16 on a GPU; (batch, heads, positions, width of a head) of molecules, text and an alignment.
``quick_attention`` goes by these: ``efficient`` for up to 64 positions and heads of up to 64.
"""

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from discrete_meanflow.network.transformer import attend
from side_by_side import RESULTS, record, seconds

SHAPES = [
    (1024, 6, 9, 64),
    (512, 6, 22, 32),
    (2048, 8, 64, 32),
    (2048, 12, 64, 64),
    (2048, 6, 64, 128),
    (512, 6, 105, 16),
    (512, 8, 105, 32),
]
CALLS = 20
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def both_ways(attend: Attend, parts: list[Tensor], choice: AbstractContextManager[Any]) -> float:
    """Seconds of one forward and back."""

    def work() -> None:
        for _ in range(CALLS):
            torch.autograd.grad(attend(*parts).sum(), parts)

    with choice:
        return seconds(work, 3, "cuda") / CALLS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    numbers: dict[str, float] = {}
    for shape in SHAPES:
        parts = [
            torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            for _ in range(3)
        ]
        fused = scaled_dot_product_attention
        written = both_ways(attend, parts, nullcontext())
        ways: dict[str, AbstractContextManager[Any]] = {
            "torch's choice": nullcontext(),
            "efficient": sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION),
            "cuDNN": sdpa_kernel(SDPBackend.CUDNN_ATTENTION),
            "flash": sdpa_kernel(SDPBackend.FLASH_ATTENTION),
        }
        numbers[f"{shape}: written out, ms"] = 1e3 * written
        for name, choice in ways.items():
            numbers[f"{shape}: {name}, over written out"] = (
                both_ways(fused, parts, choice) / written
            )
    record("attention-cuda", "cuda", "python bench/attention.py", numbers, given.out)


if __name__ == "__main__":
    main()
