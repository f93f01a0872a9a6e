"""Generation: compose a kernel over a grid of times, or over groups of positions.

One step is the grid (0, 1).
"""

from discrete_meanflow.sampler.chunk import chunk_size
from discrete_meanflow.sampler.kernel import KernelSampler
from discrete_meanflow.sampler.logits import LogitProcessor, forbid, temperature, top_p
from discrete_meanflow.sampler.ode import ODESampler
from discrete_meanflow.sampler.unmasking import UnmaskingSampler, bisection

__all__ = [
    "KernelSampler",
    "LogitProcessor",
    "ODESampler",
    "UnmaskingSampler",
    "bisection",
    "chunk_size",
    "forbid",
    "temperature",
    "top_p",
]
