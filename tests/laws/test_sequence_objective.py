"""Laws of the objectives on sequences: their minimum is the exact kernel, by enumeration."""

import itertools
import math

import pytest
import torch
from torch import nn

from discrete_meanflow.data import TokenArray
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import BoundaryKernel, BridgeKernel, UnconstrainedKernel
from discrete_meanflow.network import MLP
from discrete_meanflow.objective import (
    KernelCE,
    KernelResidual,
    PosteriorRegression,
    Sampled,
    Weighted,
    hybrid,
)
from discrete_meanflow.process import Absorbing, ChainProcess, Masking, PathSample, Structured
from discrete_meanflow.schedule import Linear
from discrete_meanflow.simplex import delta
from discrete_meanflow.times import TimePair
from problems import GENERATORS, uniform_noise

DATA = TokenArray(torch.tensor([[0, 0]] * 9 + [[1, 1]] * 6 + [[2, 0]] * 4 + [[1, 2]]), 3)
PROCESSES = {
    "masking": Masking(DATA),
    "absorbing": Absorbing(DATA, 1),
    "structured": Structured(DATA, uniform_noise(3)),
}
R, T = 0.3, 0.8
every_process = pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES)


def corruption(process, x1, r):
    """``P(x_r | x1)`` at one position, as a law over states."""
    if isinstance(process, Structured):
        one = torch.ones((), dtype=torch.float64)
        return process.noising(one * r, one)[:, x1]
    law = torch.zeros(process.states, dtype=torch.float64)
    law[process.token] += 1 - r
    law[x1] += r
    return law


def enumerated(process, r=R, t=T):
    """Every (x1, x_r, x_t) with its probability: expectations without sampling."""
    rows, weights = [], []
    at_r, at_t = (torch.full((1,), s, dtype=torch.float64) for s in (r, t))
    n = process.states
    for x1, share in _distinct(DATA.tokens):
        laws = [corruption(process, token, r) for token in x1]
        for x in itertools.product(range(n), repeat=2):
            p_x = share * math.prod(laws[d][x[d]].item() for d in range(2))
            if p_x < 1e-15:
                continue
            ends = [
                process.bridge(
                    torch.tensor([x[d]]), delta(torch.tensor([x1[d]]), n, torch.float64), at_r, at_t
                )[0]
                for d in range(2)
            ]
            for y in itertools.product(range(n), repeat=2):
                p = p_x * math.prod(ends[d][y[d]].item() for d in range(2))
                if p > 1e-15:
                    rows.append((x, y, x1))
                    weights.append(p)
    x, y, x1 = (torch.tensor(part) for part in zip(*rows, strict=True))
    times = [torch.full((len(x), 1), s, dtype=torch.float64) for s in (r, t)]
    path = PathSample(x, *times, y[..., None], torch.empty(*x.shape, 0), x1)
    return path, torch.tensor(weights, dtype=torch.float64)


def _distinct(tokens):
    found, counts = tokens.unique(dim=0, return_counts=True)
    return [(tuple(row.tolist()), c.item() / len(tokens)) for row, c in zip(found, counts)]  # noqa: B905


class Tilted(nn.Module):
    """``log P(x1 | x_r)`` by enumeration, plus theta: the truth at theta = 0."""

    def __init__(self, process):
        super().__init__()
        self.states = n = process.states
        table = torch.zeros(n, n, 2, n, dtype=torch.float64)
        for x1, share in _distinct(DATA.tokens):
            laws = [corruption(process, token, R) for token in x1]
            for x in itertools.product(range(n), repeat=2):
                p = share * math.prod(laws[d][x[d]].item() for d in range(2))
                for d in range(2):
                    table[x][d, x1[d]] += p
        table /= table.sum(-1, keepdim=True).clamp(min=1e-300)
        self.log_q = table.clamp(min=1e-40).log()
        self.theta = nn.Parameter(torch.zeros(n, n, 2, n, dtype=torch.float64))

    def forward(self, x, r, t):
        index = (x[..., 0], x[..., 1])
        # The tilt changes with t, so that the residual is probed in that direction, too.
        return self.log_q[index] + (1 + t[..., None]) * self.theta[index]


def kernel_of(process, network):
    if isinstance(process, Structured):
        return BridgeKernel(network, process)
    return BoundaryKernel(network, Linear(), mask=process.token)


OBJECTIVES = {
    "KR": lambda process: KernelResidual(Sampled(process)),
    "PR": lambda process: PosteriorRegression(),
    "KCE": lambda process: KernelCE(),
    "hybrid": lambda process: hybrid(KernelResidual(Sampled(process)), KernelCE(), 0.1),
}
every_objective = pytest.mark.parametrize("make", OBJECTIVES.values(), ids=OBJECTIVES)


def expected_gradient(objective, kernel, path, weight):
    losses = [objective(kernel, PathSample(*(part[i : i + 1] for part in path)))
              for i in range(len(weight))]  # fmt: skip
    return torch.autograd.grad((torch.stack(losses) * weight).sum(), list(kernel.parameters()))


@every_process
@every_objective
def test_the_exact_kernel_is_stationary(process, make):
    """For structured noise the exact kernel is the bridge of the exact posterior."""
    network = Tilted(process)
    kernel = kernel_of(process, network)
    path, weight = enumerated(process)
    assert weight.sum().item() == pytest.approx(1)
    (gradient,) = expected_gradient(make(process), kernel, path, weight)
    assert gradient.abs().max() < 1e-9
    with torch.no_grad():
        noise = getattr(process, "token", 0)
        network.theta[noise, noise, 0, 0] = 0.3
    (gradient,) = expected_gradient(make(process), kernel, path, weight)
    assert gradient.abs().max() > 1e-4


def test_revealed_positions_stay_and_cost_nothing():
    process = PROCESSES["masking"]
    torch.manual_seed(0)
    kernel = BoundaryKernel(MLP(4, 16, 3), Linear(), mask=process.token).double()
    x = torch.tensor([[0, 2], [1, 1]])
    r, t = (torch.full((2, 1), s, dtype=torch.float64) for s in (R, T))
    assert torch.equal(kernel.probs(x, r, t), delta(x, 4, torch.float64))
    path = PathSample(x, r, t, x[..., None], torch.empty(2, 2, 0), x)
    for objective in (KernelCE(), PosteriorRegression(), KernelResidual(Sampled(process))):
        loss = objective(kernel, path)
        assert loss.item() == 0
        gradients = torch.autograd.grad(loss, list(kernel.parameters()), allow_unused=True)
        assert all(g is None or g.abs().max() == 0 for g in gradients)


def test_posterior_regression_looks_at_one_time_only():
    process = PROCESSES["masking"]
    torch.manual_seed(0)
    kernel = BoundaryKernel(MLP(4, 16, 3), Linear(), mask=process.token).double()
    path, _ = enumerated(process)
    later = path._replace(t=path.t + 0.1)
    assert PosteriorRegression()(kernel, path) == PosteriorRegression()(kernel, later)
    assert KernelCE()(kernel, path) != KernelCE()(kernel, later)


def test_the_ends_of_the_hybrid_are_its_terms():
    a, b = KernelResidual(Sampled(PROCESSES["masking"])), KernelCE()
    assert hybrid(a, b, 0) is a
    assert hybrid(a, b, math.inf) is b
    assert isinstance(hybrid(a, b, 0.1), Weighted)
    assert hybrid(a, b, 0.1).draws == 1
    for weight in (-1.0, math.nan):
        with pytest.raises(InputError, match="lambda must be >= 0"):
            hybrid(a, b, weight)


def test_cross_entropy_says_what_it_needs():
    path, _ = enumerated(PROCESSES["masking"])
    with pytest.raises(InputError, match="law q"):
        KernelCE()(UnconstrainedKernel(MLP(4, 16, 3)).double(), path)
    chain = ChainProcess(GENERATORS["ring"])
    times = torch.zeros(4, dtype=torch.float64)
    path = chain.path(TimePair(times, times + 0.5), torch.Generator())
    with pytest.raises(InputError, match="clean data x1"):
        KernelCE()(BoundaryKernel(MLP(3, 16, 3), Linear()), path)
