"""Metrics of samples."""

from discrete_meanflow.metric.divergence import (
    frequencies,
    marginal_tv,
    pair_tv,
    sampling_floor,
    total_variation,
)

__all__ = ["frequencies", "marginal_tv", "pair_tv", "sampling_floor", "total_variation"]
