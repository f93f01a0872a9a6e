"""Schedules alpha(r, t): the weight of the learned law against staying."""

from discrete_meanflow.schedule.base import AlphaSchedule as AlphaSchedule
from discrete_meanflow.schedule.distortion import (
    Distorted as Distorted,
    Distortion as Distortion,
    cosine as cosine,
    distorted_grid as distorted_grid,
    identity as identity,
    polydec as polydec,
    polyinc as polyinc,
    revcos as revcos,
)
from discrete_meanflow.schedule.exponential import Exponential as Exponential
from discrete_meanflow.schedule.linear import Linear as Linear
