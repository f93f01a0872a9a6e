"""Inductive moment matching: Zhou et al. 2025, arXiv:2503.07565.

Within groups of M records, samples ``X_{r,t}(x_r)`` and ``X_{s,t}(x_s)`` from two start times r < s
have equal laws. Loss: their maximum mean discrepancy
``1/M^2 sum_{j,k} k(y_j, y_k) + k(y'_j, y'_k) - 2 k(y_j, y'_k)``. Sampler: one step of the map, or
several.

It differs from the paper: the kernel k is Gaussian instead of Laplace's, and times have no weights.
The authors published no training code to compare with. The diagonal is trained only as the limit of
short steps, so there is no bound of the likelihood.
"""

from discrete_meanflow.method.base import Method
from discrete_meanflow.objective import MomentMatching
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.times import ClockUniform, Grouped

PARTICLES = 4  # M, as in the paper

METHODS = {
    "imm": Method(
        "inductive moment matching (Zhou et al. 2025, arXiv:2503.07565)",
        OneHotFlow,
        lambda process: MomentMatching(process.states, PARTICLES),
        lambda vocabulary: Grouped(ClockUniform(vocabulary), PARTICLES),
        KernelSampler.steps,
        steps=1,
        multiple=PARTICLES,
    ),
}
