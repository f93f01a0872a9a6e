from torch import nn

from discrete_meanflow.network import FlatMLP

LARGEST = 10_000  # sequences carried at once
CPU_NUMBERS, NUMBERS = 2**25, 2**28  # that the largest tensor on the way may hold
HEADS = 16  # of attention, or so


def chunk_size(length: int, states: int, network: nn.Module) -> int:
    """How many sequences to carry at once: attention may hold ``heads D^2`` numbers for each.

    All networks but the MLP over a flattened state are taken to attend.
    """
    flat = any(isinstance(part, FlatMLP) for part in network.modules())
    widest = states if flat else max(states, HEADS * length)
    on_cpu = all(p.device.type == "cpu" for p in network.parameters())
    return max(1, min(LARGEST, (CPU_NUMBERS if on_cpu else NUMBERS) // (length * widest)))
