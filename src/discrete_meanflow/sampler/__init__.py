"""Generation: compose a kernel over a grid of times. One step is the grid (0, 1)."""

from discrete_meanflow.sampler.adjust import Adjustment, temperature, top_p, without
from discrete_meanflow.sampler.kernel import KernelSampler

__all__ = ["Adjustment", "KernelSampler", "temperature", "top_p", "without"]
