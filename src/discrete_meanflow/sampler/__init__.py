"""Generation: compose a kernel over a grid of times, or over groups of positions.

One step is the grid (0, 1).
"""

from discrete_meanflow.sampler.adjust import Adjustment, temperature, top_p, without
from discrete_meanflow.sampler.flow import FlowSampler
from discrete_meanflow.sampler.kernel import KernelSampler
from discrete_meanflow.sampler.lot import lot_size
from discrete_meanflow.sampler.ordered import OrderedSampler, bisection

__all__ = [
    "Adjustment",
    "FlowSampler",
    "KernelSampler",
    "OrderedSampler",
    "bisection",
    "lot_size",
    "temperature",
    "top_p",
    "without",
]
