"""Metrics of kernels and of samples."""

from discrete_meanflow.metric.composition import composition_defect, time_triples
from discrete_meanflow.metric.divergence import frequencies, sampling_floor, total_variation
from discrete_meanflow.metric.kernel_error import KernelError, kernel_error, time_grid
from discrete_meanflow.metric.sequences import marginal_tv, pair_tv

__all__ = [
    "KernelError",
    "composition_defect",
    "frequencies",
    "kernel_error",
    "marginal_tv",
    "pair_tv",
    "sampling_floor",
    "time_grid",
    "time_triples",
    "total_variation",
]
