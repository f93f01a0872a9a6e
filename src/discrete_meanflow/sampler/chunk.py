from torch import nn

from discrete_meanflow.network import FlatMLP

LARGEST = 10_000  # sequences per chunk
CPU_NUMBERS, NUMBERS = 2**25, 2**28  # entries of the largest tensor
HEADS = 16  # of attention, roughly


def chunk_size(length: int, states: int, network: nn.Module) -> int:
    """Sequences to generate at once: attention may store ``heads D^2`` numbers for each.

    Every network except FlatMLP is assumed to attend.
    """
    flat = any(isinstance(part, FlatMLP) for part in network.modules())
    widest = states if flat else max(states, HEADS * length)
    on_cpu = all(p.device.type == "cpu" for p in network.parameters())
    return max(1, min(LARGEST, (CPU_NUMBERS if on_cpu else NUMBERS) // (length * widest)))
