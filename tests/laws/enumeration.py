"""Expectations over all paths of two dependent positions, and the exact network with a tilt."""

import itertools
import math

import torch
from torch import nn

from discrete_meanflow.data import TokenArray
from discrete_meanflow.process import PathSample
from discrete_meanflow.simplex import delta

DATA = TokenArray(torch.tensor([[0, 0]] * 9 + [[1, 1]] * 6 + [[2, 0]] * 4 + [[1, 2]]), 3)
R, T = 0.3, 0.8


def corruption(process, x1, r):
    """``P(x_r | x1)`` at one position, as a law over states."""
    every = torch.arange(process.states)
    return process.likelihood(every, torch.full(every.shape, r, dtype=torch.float64))[:, x1]


def enumerated(process, r=R, t=T, draws=1):
    """Every (x1, x_r, draws of x_t) with its probability: expectations without sampling."""
    rows, weights = [], []
    at_r, at_t = (torch.full((1,), s, dtype=torch.float64) for s in (r, t))
    n = process.states
    for x1, fraction in _distinct(DATA.tokens):
        laws = [corruption(process, token, r) for token in x1]
        for x in itertools.product(range(n), repeat=2):
            p_x = fraction * math.prod(laws[d][x[d]].item() for d in range(2))
            if p_x < 1e-15:
                continue
            ends = [
                process.bridge(
                    torch.tensor([x[d]]), delta(torch.tensor([x1[d]]), n, torch.float64), at_r, at_t
                )[0]
                for d in range(2)
            ]
            reached = {
                y: p
                for y in itertools.product(range(n), repeat=2)
                if (p := math.prod(ends[d][y[d]].item() for d in range(2))) > 1e-15
            }
            for drawn in itertools.product(reached, repeat=draws):
                rows.append((x, tuple(zip(*drawn, strict=True)), x1))
                weights.append(p_x * math.prod(reached[y] for y in drawn))
    x, y, x1 = (torch.tensor(part) for part in zip(*rows, strict=True))
    times = [torch.full((len(x), 1), s, dtype=torch.float64) for s in (r, t)]
    path = PathSample(x, *times, y, torch.empty(*x.shape, 0), x1, times[1])
    return path, torch.tensor(weights, dtype=torch.float64)


def _distinct(tokens):
    found, counts = tokens.unique(dim=0, return_counts=True)
    return [(tuple(row.tolist()), c.item() / len(tokens)) for row, c in zip(found, counts)]  # noqa: B905


class Tilted(nn.Module):
    """``log P(x1 | x_r)`` by enumeration, plus theta: the truth at theta = 0."""

    def __init__(self, process, r=R):
        super().__init__()
        self.states = n = process.states
        table = torch.zeros(n, n, 2, n, dtype=torch.float64)
        for x1, fraction in _distinct(DATA.tokens):
            laws = [corruption(process, token, r) for token in x1]
            for x in itertools.product(range(n), repeat=2):
                p = fraction * math.prod(laws[d][x[d]].item() for d in range(2))
                for d in range(2):
                    table[x][d, x1[d]] += p
        table /= table.sum(-1, keepdim=True).clamp(min=1e-300)
        self.log_q = table.clamp(min=1e-40).log()
        self.theta = nn.Parameter(torch.zeros(n, n, 2, n, dtype=torch.float64))

    def forward(self, x, r, t):
        index = x.argmax(-1).unbind(-1)
        # The tilt changes with t, so that the residual is probed in that direction, too.
        return self.log_q[index] + (1 + t[..., None]) * self.theta[index]


def expected_gradient(objective, kernel, path, weight):
    """Of the mean over all paths, each a batch by itself with a weight of its own."""
    each = PathSample(*(part[:, None] for part in path))
    losses = torch.func.vmap(lambda *parts: objective(kernel, PathSample(*parts)))(*each)
    return torch.autograd.grad((losses * weight).sum(), list(kernel.parameters()))
