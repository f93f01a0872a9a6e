"""Attention, forward and backward: torch's fused kernels against explicit matrix products.

    python bench/attention.py

bfloat16 on a GPU. Shapes are (batch, heads, positions, head width) of molecules, text and an
alignment, in the memory layout of a layer. Calls are captured in a CUDA graph and replayed, as
training steps are: launching the kernels of short sequences one by one takes longer than running
them. ``quick_attention`` follows these measurements: ``efficient`` for up to 64 positions and head
widths of up to 64. ``attend_in_tiles`` packs short sequences into one tile and uses ``efficient``.
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
from measure import RESULTS, record, seconds

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


def forward_and_backward(
    attend: Attend, parts: list[Tensor], choice: AbstractContextManager[Any]
) -> float:
    """Seconds of one forward and backward pass."""

    def work() -> None:
        for _ in range(CALLS):
            torch.autograd.grad(attend(*parts).sum(), parts)

    stream = torch.cuda.Stream()
    with choice:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            work()  # warm-up, outside the capture
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            work()
    return seconds(graph.replay, 3, "cuda") / CALLS


def query_key_value(shape: tuple[int, int, int, int]) -> list[Tensor]:
    """Queries, keys and values: views of one projection."""
    batch, heads, positions, width = shape
    product = torch.randn(batch, positions, 3 * heads * width, device="cuda", dtype=torch.bfloat16)
    return [
        part.unflatten(-1, (heads, width)).transpose(1, 2).requires_grad_()
        for part in product.chunk(3, -1)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    numbers: dict[str, float] = {"tile": TILE}
    for shape in SHAPES:
        parts, fused = query_key_value(shape), scaled_dot_product_attention
        efficient = [SDPBackend.EFFICIENT_ATTENTION]
        variants: dict[str, tuple[Attend, AbstractContextManager[Any]]] = {
            "torch's choice": (fused, nullcontext()),
            "efficient": (fused, sdpa_kernel(efficient)),
            "efficient, in tiles": (attend_in_tiles, sdpa_kernel(efficient)),
            "cuDNN": (fused, sdpa_kernel(SDPBackend.CUDNN_ATTENTION)),
            "flash": (fused, sdpa_kernel(SDPBackend.FLASH_ATTENTION)),
        }
        explicit = forward_and_backward(attend, parts, nullcontext())
        numbers[f"{shape}: written out, ms"] = 1e3 * explicit
        for name, (variant, choice) in variants.items():
            numbers[f"{shape}: {name}, over written out"] = (
                forward_and_backward(variant, parts, choice) / explicit
            )
    record("attention-cuda", "cuda", "python bench/attention.py", numbers, options.out)


if __name__ == "__main__":
    main()
