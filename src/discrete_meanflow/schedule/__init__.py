"""Schedules alpha(r, t): the weight of the learned law against staying."""

from discrete_meanflow.schedule.base import AlphaSchedule
from discrete_meanflow.schedule.exponential import Exponential
from discrete_meanflow.schedule.linear import Linear

__all__ = ["AlphaSchedule", "Exponential", "Linear"]
