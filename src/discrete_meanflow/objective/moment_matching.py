import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective.base import Needs, Objective
from discrete_meanflow.objective.consistency import NextTime
from discrete_meanflow.objective.self_distillation import flow_map, ratio
from discrete_meanflow.process import PathSample
from discrete_meanflow.types import Point

SMALLEST_SCALE = 1e-3  # lower bound of alpha


class MomentMatching(Objective):
    r"""The maximum mean discrepancy between samples at t from two start times, r and s.

    Inductive moment matching (IMM, Zhou et al. 2025, arXiv:2503.07565). In a group of M sequences
    with equal times, ``y_j = X_{r,t}(x_r)`` and, without gradient, ``y'_j = X_{s,t}(x_s)`` at the
    next time s after r on the same path,

        L = 1/M^2 sum_{j,k} k(y_j, y_k) + k(y'_j, y'_k) - 2 k(y_j, y'_k).

    At s = t the targets are noised data, and by induction all maps reach the right law at t.
    The kernel is Gaussian, ``exp(-|a - b|^2 / (2 alpha^2 D))``, ``alpha = (t-r)/(1-r)``: the terms
    j = k then have the mean of y' as their minimum. The paper's Laplace kernel has the median,
    which on one-hot vectors is a likely symbol. Use it with ``Grouped(times, particles)``.

    Args:
        states: number of symbols V.
        particles: number of samples M of each law. With one, the loss is a consistency loss.
        intervals: N; the step from r to s covers 1/N of the decoding clock.
    """

    needs = Needs(draws=0, continuous=True, data_ends=True)

    def __init__(self, states: int, particles: int = 4, intervals: int = 16) -> None:
        super().__init__()
        if particles < 1:
            raise InputError(f"moment matching: needs at least one particle, got {particles}")
        self.particles, self.next = particles, NextTime(states, intervals)

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        student, r, t = flow_map(kernel), path.r, path.t
        with torch.no_grad():
            s, x = self.next(path, t)
            there = self.grouped(student.probs(x, s, t))
        here = self.grouped(student.probs(path.x, r, t))
        alpha = ratio(t - r, 1 - r).amax(-1).clamp(min=SMALLEST_SCALE)
        scale = 2 * alpha[: len(here), None, None].square() * path.x.shape[-2]
        own, others, both = (
            torch.exp(-square_distance(a, b) / scale)
            for a, b in ((here, here), (there, there), (here, there))
        )
        return (own + others - 2 * both).mean()

    def grouped(self, x: Point) -> Tensor:
        """``(*batch, D, V)`` as groups of sequences, ``(groups, M, D V)``."""
        if len(x) % self.particles:
            raise InputError(
                f"moment matching: a batch of {len(x)} has no groups of {self.particles}"
            )
        return x.flatten(-2).unflatten(0, (self.particles, -1)).transpose(0, 1)

    def extra_repr(self) -> str:
        return f"particles={self.particles}"


def square_distance(a: Tensor, b: Tensor) -> Tensor:
    """All squared Euclidean distances, ``(groups, M, M)``."""
    return (a[:, :, None] - b[:, None]).square().sum(-1)
