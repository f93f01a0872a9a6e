"""Attention forward and back by each of torch's fused kernels, against that written out.

    python bench/attention.py

bfloat16 on a GPU; (batch, heads, positions, width of a head) of molecules, text and an alignment,
lying in memory as a layer leaves them. Captured and replayed, as steps of training are: of short
sequences, launches one by one would take longer than the work.
``quick_attention`` goes by these: ``efficient`` for up to 64 positions and heads of up to 64. So
does ``attend_in_tiles``, which puts short sequences side by side, and takes ``efficient`` then.
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

from discrete_meanflow.network.transformer import TILE, attend, attend_in_tiles
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

    stream = torch.cuda.Stream()
    with choice:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            work()  # what is made ready once is not captured
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            work()
    return seconds(graph.replay, 3, "cuda") / CALLS


def laid_out(shape: tuple[int, int, int, int]) -> list[Tensor]:
    """Queries, keys and values, parts of one product."""
    batch, heads, positions, width = shape
    product = torch.randn(batch, positions, 3 * heads * width, device="cuda", dtype=torch.bfloat16)
    return [
        part.unflatten(-1, (heads, width)).transpose(1, 2).requires_grad_()
        for part in product.chunk(3, -1)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    numbers: dict[str, float] = {"tile": TILE}
    for shape in SHAPES:
        parts, fused = laid_out(shape), scaled_dot_product_attention
        efficient = [SDPBackend.EFFICIENT_ATTENTION]
        ways: dict[str, tuple[Attend, AbstractContextManager[Any]]] = {
            "torch's choice": (fused, nullcontext()),
            "efficient": (fused, sdpa_kernel(efficient)),
            "efficient, in tiles": (attend_in_tiles, sdpa_kernel(efficient)),
            "cuDNN": (fused, sdpa_kernel(SDPBackend.CUDNN_ATTENTION)),
            "flash": (fused, sdpa_kernel(SDPBackend.FLASH_ATTENTION)),
        }
        written = both_ways(attend, parts, nullcontext())
        numbers[f"{shape}: written out, ms"] = 1e3 * written
        for name, (trajectory, choice) in ways.items():
            numbers[f"{shape}: {name}, over written out"] = (
                both_ways(trajectory, parts, choice) / written
            )
    record("attention-cuda", "cuda", "python bench/attention.py", numbers, given.out)


if __name__ == "__main__":
    main()
