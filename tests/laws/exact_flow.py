"""The exact flow of an enumerable law, and a small problem with fully dependent positions."""

import torch
from torch import nn

from discrete_meanflow.data import BigramChain, TokenArray
from discrete_meanflow.kernel import ExactPosterior, FlowMapKernel
from discrete_meanflow.network import FlatMLP
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import OneHotFlow, PathSample
from discrete_meanflow.schedule import Linear
from discrete_meanflow.times import ClockUniform
from discrete_meanflow.training import Problem
from problems import seeded

LAW = BigramChain.dirichlet(3, 2, 1.0)
PROCESS = OneHotFlow(3)
CLEAN = torch.cartesian_prod(torch.arange(3), torch.arange(3))
TWINS = TokenArray(torch.tensor([[0, 0, 0], [1, 1, 1]]), 2)
TWINS_PROCESS = OneHotFlow(2)


class ExactFlow(nn.Module):
    """``log q_{r,t}`` of the exact flow map: the exact diagonal posterior, integrated by RK4.

    In ``w = -log(1 - time)`` the forward equation is ``dX/dw = q(X, w) - X``. It is integrated to
    time 0.999 at most, and observed positions, which start at time 1, stay.
    """

    steps, last = 40, 0.999

    def __init__(self, law=LAW, process=PROCESS):
        super().__init__()
        self.diagonal = ExactPosterior(law, process)

    def velocity(self, x, w, observed):
        time = torch.where(observed, 1.0, 1 - torch.exp(-w))
        return torch.where(observed[..., None], 0.0, self.diagonal(x, time, time).exp() - x)

    def integrate(self, x, r, t):
        observed = r == 1
        w, end = (-torch.log(1 - s.clamp(max=self.last)) for s in (r, t))
        h = (end - w) / self.steps
        for _ in range(self.steps):
            k1 = self.velocity(x, w, observed)
            k2 = self.velocity(x + h[..., None] / 2 * k1, w + h / 2, observed)
            k3 = self.velocity(x + h[..., None] / 2 * k2, w + h / 2, observed)
            k4 = self.velocity(x + h[..., None] * k3, w + h, observed)
            x, w = x + h[..., None] / 6 * (k1 + 2 * k2 + 2 * k3 + k4), w + h
        return x

    def forward(self, x, r, t):
        alpha = Linear()(r, t)[..., None]
        off_diagonal = alpha > 0
        q = (self.integrate(x, r, t) - (1 - alpha) * x) / torch.where(off_diagonal, alpha, 1.0)
        return torch.where(off_diagonal, q.clamp(min=1e-30).log(), self.diagonal(x, r, r))


class Tilted(nn.Module):
    """The exact flow map, or another network, plus theta, one for each sequence."""

    def __init__(self, sequences, theta=0.0, network=None):
        super().__init__()
        self.exact = network or ExactFlow()
        self.theta = nn.Parameter(torch.zeros(sequences, 2, 3, dtype=torch.float64))
        self.theta.data[:, 0, 0] = theta

    def forward(self, x, r, t):
        return self.exact(x, r, t) + (1 + r + t)[..., None] * self.theta


def every_end(r, t, starts=6):
    """Each x_r with every x1, and the weights ``P(x1 | x_r) / starts``."""
    g = seeded()
    times = torch.full((starts, 1), r, dtype=torch.float64)
    x = PROCESS.corrupt(LAW.sample((starts,), g), times, g).double()
    likelihood = PROCESS.likelihood(x, times).log()[:, None].expand(-1, 9, -1, -1)
    each = CLEAN.expand(starts, 9, 2)
    joint = likelihood.gather(-1, each[..., None]).sum((-1, -2)) + LAW.log_prob(CLEAN)
    weight = joint.softmax(-1).flatten() / starts
    x, x1 = x.repeat_interleave(9, 0), each.flatten(0, 1)
    r, t = (torch.full((9 * starts, 1), s, dtype=torch.float64) for s in (r, t))
    none = torch.empty(*x.shape, 0)
    return PathSample(x, r, t, none, none, x1, t), weight


def expected_gradient(objective, path, weight, theta=0.0, network=None):
    """In the tilt of all sequences, with a weight for each."""
    kernel = FlowMapKernel(Tilted(len(weight), theta, network), 3)
    (each,) = torch.autograd.grad(objective(kernel, path) * len(weight), kernel.network.theta)
    return torch.einsum("b,bdv->dv", weight, each)


def twins_problem(objective, conditioning=0.0, process=TWINS_PROCESS):
    """Three positions that are always equal."""
    paths = DataPaths(process, TWINS, ClockUniform(2, 0.2), conditioning)
    return Problem(paths, lambda: FlowMapKernel(FlatMLP(2, 3, 64, 1), 2), objective)


EXACT = FlowMapKernel(ExactFlow(), 3)


def pair_law(observed):
    """The law of ``3 y_0 + y_1``, or that given ``y_0 = 1``."""
    law = LAW.log_prob(torch.cartesian_prod(torch.arange(3), torch.arange(3))).exp().reshape(3, 3)
    if observed:
        law = torch.zeros_like(law).index_copy(0, torch.tensor([1]), law[1:2] / law[1].sum())
    return law.flatten()
