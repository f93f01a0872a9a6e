"""Laws of all V^D states of a sequence, and what a kernel's step makes of them."""

import itertools
import math

import torch
from torch import nn

from discrete_meanflow.data import BigramChain
from discrete_meanflow.kernel import BridgeKernel, ExactPosterior
from discrete_meanflow.process import Masking, MixturePath
from discrete_meanflow.simplex import delta

LAW = BigramChain.dirichlet(3, 2, 1.0, seed=2)


def joint_states(states):
    return torch.tensor(list(itertools.product(range(states), repeat=LAW.length)))


def noised(process, r):
    """``p_r`` of every state, by enumeration of x1."""
    x, clean = joint_states(process.states), joint_states(process.vocabulary)
    seen = process.likelihood(x, torch.full(x.shape, r, dtype=torch.float64))  # (states, D, V)
    given = seen[:, torch.arange(LAW.length), clean].prod(-1)  # (states, clean)
    return given @ LAW.log_prob(clean).exp()


def exact_kernel(process):
    """The kernel of the exact posterior of each position."""
    token = process.token if isinstance(process, MixturePath) else None
    return BridgeKernel(ExactPosterior(LAW, process), process, token)


def after(kernel, law, grid):
    """The exact law over all states after steps along the grid, positions drawn independently."""
    x = joint_states(kernel.states)
    for r, t in itertools.pairwise(grid):
        times = [torch.full(x.shape, s, dtype=torch.float64) for s in (r, t)]
        reached = law > 0  # the exact posterior has none for the others
        first, second = kernel.probs(x[reached], *(s[reached] for s in times)).unbind(1)
        step = first[:, :, None] * second[:, None, :]
        law = torch.einsum("b,byz->yz", law[reached], step).flatten()
    return law


def generator(kernel, t, possible):
    """The generator of the possible states: one position jumps at a time."""
    x = joint_states(kernel.states)[possible]
    times = torch.full(x.shape, t, dtype=torch.float64)
    rates = kernel.rate(x, kernel(x, times, times), times)
    here = delta(x, kernel.states, torch.float64)
    first = rates[:, 0, :, None] * here[:, 1, None, :]
    second = here[:, 0, :, None] * rates[:, 1, None, :]
    return (first + second).flatten(1)[:, possible].T


class Scores(nn.Module):
    """The logits of a score kernel from a network of ``log q(x1)``, plus theta if it has one."""

    def __init__(self, network, process):
        super().__init__()
        self.network, self.process = network, process

    def forward(self, x, r, t):
        if isinstance(self.process, Masking):
            return self.network(x, r, t).log_softmax(-1) + math.log(self.process.vocabulary)
        q = self.network(x, r, t).softmax(-1)
        rate = self.process.marginal_rate(x.argmax(-1), q, r)
        scale = self.process.vocabulary * r[..., None]
        return (rate * scale).clamp(min=1e-30).log()


class OneHot(nn.Module):
    """A network of symbols as one of one-hot points."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, r, t):
        return self.network(x.argmax(-1), r, t)
