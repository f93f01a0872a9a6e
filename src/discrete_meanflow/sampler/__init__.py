"""Generation: compose a kernel along a time grid or over groups of positions.

One-step generation is the grid (0, 1).
"""

from discrete_meanflow.sampler.base import Sampler
from discrete_meanflow.sampler.chunk import chunk_size
from discrete_meanflow.sampler.kernel import KernelSampler
from discrete_meanflow.sampler.logits import LogitProcessor, forbid, temperature, top_p
from discrete_meanflow.sampler.ode import ODESampler
from discrete_meanflow.sampler.unmasking import UnmaskingSampler, bisection

__all__ = [
    "KernelSampler",
    "LogitProcessor",
    "ODESampler",
    "Sampler",
    "UnmaskingSampler",
    "bisection",
    "chunk_size",
    "forbid",
    "temperature",
    "top_p",
]
