"""How far generated sequences are from a known law: position by position, and in pairs."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from discrete_meanflow.data import Law
from discrete_meanflow.metric.divergence import frequencies, total_variation
from discrete_meanflow.types import Probs, State

SMALLEST = 1e-10  # probability given to a symbol the law never has, so that its log is finite


def numbered(x: State, vocabulary: int) -> Tensor:
    """The number that each sequence is, written with its symbols as digits: ``(N, D) -> (N,)``."""
    return (x.long() * vocabulary ** torch.arange(x.shape[1] - 1, -1, -1)).sum(-1)


def marginals(law: Law, states: int) -> Probs:
    """The true marginals over all states, the mask (if any) at zero: shape ``(D, n)``."""
    p = law.marginals().cpu()
    return pad(p, (0, states - law.vocabulary))


def pairs(law: Law, states: int) -> Probs:
    """The true laws of adjacent pairs, flattened: shape ``(D - 1, n * n)``."""
    p = law.pair_marginals().cpu()
    return pad(p, (0, states - law.vocabulary) * 2).flatten(1)


def marginal_tv(y: State, law: Law, states: int | None = None) -> float:
    """Mean over positions of TV between the frequencies of N sequences ``(N, D)`` and the law.

    states: how many symbols the sequences may hold; by default the law's and one more, a mask.
    """
    states = states or law.vocabulary + 1
    return total_variation(frequencies(y.T.cpu(), states), marginals(law, states)).mean().item()


def pair_tv(y: State, law: Law, states: int | None = None) -> float:
    """Mean over adjacent pairs of TV: sees what marginals are blind to. 0 for one position."""
    states = states or law.vocabulary + 1
    if law.length == 1:
        return 0.0
    both = (y[:, :-1] * states + y[:, 1:]).T.cpu()
    return total_variation(frequencies(both, states**2), pairs(law, states)).mean().item()


def token_accuracy(y: State, fresh: State) -> float:
    """Share of positions where a generated token equals that of a fresh clean sequence."""
    return (y == fresh).double().mean().item()


def marginal_cross_entropy(y: State, law: Law, states: int) -> float:
    """``-log p_d(y_d)`` under the true marginals, averaged."""
    p = marginals(law, states).clamp(min=SMALLEST).log()
    return -p.expand(len(y), -1, -1).gather(-1, y.cpu()[..., None]).mean().item()


def product_pair_tv(law: Law) -> float:
    """The pair TV of the product of the true marginals, all that a factorised step can learn."""
    p = law.marginals().cpu()
    product: Tensor = p[:-1, :, None] * p[1:, None, :]
    gap = (product - law.pair_marginals().cpu()).abs().sum((-1, -2)) / 2
    return gap.mean().item() if law.length > 1 else 0.0


def share_of(y: State, state: int) -> float:
    """How much of the sequences is one state, such as the mask."""
    return (y == state).double().mean().item()
