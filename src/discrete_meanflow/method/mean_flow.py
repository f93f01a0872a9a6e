"""MeanFlow on one-hot vectors: Geng et al. 2025, arXiv:2505.13447.

The mean velocity ``u = (q - x)/(1 - r)`` of the map satisfies ``u = v + (t - r) du/dr`` along
``dx/dr = v = (e_{x1} - x_r)/(1 - r)``. Loss: ``|u - stopgrad(v + (t - r) du/dr)|^2``; three
quarters of the pairs have r = t. Sampler: one step of the map, or several.

It differs from the paper: squares are not divided by their size, which on one-hot vectors favours
likely symbols, and times are uniform on the decoding clock instead of logit-normal.
"""

from discrete_meanflow.method.base import Method
from discrete_meanflow.method.flow_map import diagonal_bound
from discrete_meanflow.objective import MeanFlow
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.times import ClockUniform, OnDiagonal

DIAGONAL = 0.75  # fraction of pairs on the diagonal, as in the paper

METHODS = {
    "meanflow": Method(
        "MeanFlow (Geng et al. 2025, arXiv:2505.13447) on one-hot vectors",
        OneHotFlow,
        lambda process: MeanFlow(),
        lambda vocabulary: OnDiagonal(ClockUniform(vocabulary), DIAGONAL),
        KernelSampler.steps,
        steps=1,
        bound=diagonal_bound,
    ),
}
