from collections.abc import Iterator

import torch
from torch import Tensor, nn

from discrete_meanflow.network import FlatMLP
from discrete_meanflow.process import Process
from discrete_meanflow.sampler.base import Sampler
from discrete_meanflow.types import Tokens

LARGEST = 10_000  # sequences per chunk
CPU_NUMBERS, NUMBERS = 2**25, 2**28  # entries of the largest tensor
HEADS = 16  # of attention, roughly


def chunk_size(length: int, states: int, network: nn.Module) -> int:
    """Sequences to generate at once: attention may store ``heads D^2`` numbers for each.

    Every network except FlatMLP is assumed to attend.
    """
    flat = any(isinstance(part, FlatMLP) for part in network.modules())
    widest = 3 * states if flat else max(states, HEADS * length)  # FlatMLP's input is wider
    on_cpu = all(p.device.type == "cpu" for p in network.parameters())
    return max(1, min(LARGEST, (CPU_NUMBERS if on_cpu else NUMBERS) // (length * widest)))


def generate(
    sampler: Sampler,
    process: Process,
    shape: tuple[int, int],
    g: torch.Generator,
    tokens: Tokens | None = None,
    observed: Tensor | None = None,
    bf16: bool = False,
) -> Iterator[Tokens]:
    """Yield samples from the source in chunks, on the CPU.

    Args:
        sampler: the sampler.
        process: the process whose source it starts from.
        shape: number of sequences and their length.
        g: the random generator.
        tokens: symbols of the observed positions, ``(D,)`` or, per sequence, ``(n, D)``.
        observed: bool of the same shape.
        bf16: evaluate the network in bfloat16.
    """
    n, length = shape
    size = chunk_size(length, process.states, sampler.kernel.network)
    for start in range(0, n, size):
        chunk = slice(start, start + size)
        condition = [
            None if part is None else part.expand(shape)[chunk] for part in (tokens, observed)
        ]
        noise = process.source((min(size, n - start), length), g)
        with torch.autocast(g.device.type, torch.bfloat16, enabled=bf16):
            samples = sampler.sample(noise, g, *condition)
        yield samples.cpu()
