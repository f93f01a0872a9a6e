"""Distances of generated sequences from a known law: single positions and adjacent pairs."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from discrete_meanflow.data import Law
from discrete_meanflow.metric.divergence import frequencies, total_variation
from discrete_meanflow.types import Probs, State

MIN_PROBABILITY = 1e-10  # of symbols that the law excludes, so that their log is finite


def sequence_index(x: State, vocabulary: int) -> Tensor:
    """Index of each sequence among all V^D, first symbol most significant: ``(N, D) -> (N,)``."""
    return (x.long() * vocabulary ** torch.arange(x.shape[1] - 1, -1, -1)).sum(-1)


def marginals(law: Law, states: int) -> Probs:
    """True marginals over ``states`` symbols, zero for a mask: shape ``(D, n)``."""
    p = law.marginals().cpu()
    return pad(p, (0, states - law.vocabulary))


def pairs(law: Law, states: int) -> Probs:
    """True laws of adjacent pairs, flattened: shape ``(D - 1, n * n)``."""
    p = law.pair_marginals().cpu()
    return pad(p, (0, states - law.vocabulary) * 2).flatten(1)


def marginal_tv(y: State, law: Law, states: int | None = None) -> float:
    """Total variation between the marginals of sequences ``(N, D)`` and of the law, averaged.

    Args:
        states: number of symbols that y may contain; default: those of the law and a mask.
    """
    states = states or law.vocabulary + 1
    return total_variation(frequencies(y.T.cpu(), states), marginals(law, states)).mean().item()


def pair_tv(y: State, law: Law, states: int | None = None) -> float:
    """Total variation of adjacent pairs, averaged; unlike marginals, it sees dependence.

    It is 0 for sequences of one position.
    """
    states = states or law.vocabulary + 1
    if law.length == 1:
        return 0.0
    codes = (y[:, :-1] * states + y[:, 1:]).T.cpu()
    return total_variation(frequencies(codes, states**2), pairs(law, states)).mean().item()


def token_accuracy(y: State, fresh: State) -> float:
    """Fraction of positions at which a generated and a fresh clean sequence agree."""
    return (y == fresh).double().mean().item()


def marginal_cross_entropy(y: State, law: Law, states: int) -> float:
    """``-log p_d(y_d)`` under the true marginals, averaged."""
    p = marginals(law, states).clamp(min=MIN_PROBABILITY).log()
    return -p.expand(len(y), -1, -1).gather(-1, y.cpu()[..., None]).mean().item()


def product_pair_tv(law: Law) -> float:
    """Pair TV of the product of the true marginals: the best a factorised step can reach."""
    p = law.marginals().cpu()
    product: Tensor = p[:-1, :, None] * p[1:, None, :]
    gap = (product - law.pair_marginals().cpu()).abs().sum((-1, -2)) / 2
    return gap.mean().item() if law.length > 1 else 0.0


def state_fraction(y: State, state: int) -> float:
    """Fraction of positions in one state, such as the mask."""
    return (y == state).double().mean().item()
