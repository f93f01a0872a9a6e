"""alpha(r, t): how much of the kernel is learned rather than staying put."""

from discrete_meanflow.schedule.base import AlphaSchedule
from discrete_meanflow.schedule.exponential import Exponential
from discrete_meanflow.schedule.linear import Linear

__all__ = ["AlphaSchedule", "Exponential", "Linear"]
