"""Total variation of samples from a known law, and its sampling floor."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from discrete_meanflow.data import Sequences
from discrete_meanflow.errors import InputError
from discrete_meanflow.simplex import multinomial
from discrete_meanflow.types import Probs, State


def total_variation(p: Probs, q: Probs) -> Tensor:
    """``TV(p, q) = 1/2 sum_y |p(y) - q(y)|``: shape ``(*batch,)``."""
    return (p - q).abs().sum(-1) / 2


def frequencies(y: Tensor, n: int) -> Probs:
    """Empirical law of the draws along the last axis: ``(*batch, N) -> (*batch, n)``, float64."""
    flat = y.reshape(-1, y.shape[-1])
    counts = torch.zeros(len(flat), n, dtype=torch.float64, device=y.device)
    counts.scatter_add_(1, flat, torch.ones_like(flat, dtype=torch.float64))
    return (counts / y.shape[-1]).reshape(*y.shape[:-1], n)


def sampling_floor(p: Probs, draws: int, g: torch.Generator, repeats: int = 200) -> Tensor:
    """Expected total variation between p and the empirical law of N draws from p.

    A perfect sampler scores this floor, not 0. It is estimated by simulation and is about
    ``1/2 sum_y sqrt(2 p(y) (1 - p(y)) / (pi N))`` if every ``N p(y)`` is large.

    Args:
        p: shape ``(*batch, n)``; the result has shape ``(*batch,)``.
        draws: number of draws N.
        repeats: number of simulated samples.
    """
    if draws < 1 or repeats < 1:
        raise InputError(
            f"sampling floor: needs draws >= 1 and repeats >= 1, got {draws} and {repeats}"
        )
    counts = multinomial(p.double().expand(repeats, *p.shape), draws, g)
    return total_variation(counts / draws, p.double()).mean(0)


def marginals(law: Sequences, states: int) -> Probs:
    """True marginals over ``states`` symbols, zero for a mask: shape ``(D, n)``."""
    return pad(law.marginals().cpu(), (0, states - law.vocabulary))


def marginal_tv(y: State, law: Sequences, states: int | None = None) -> float:
    """Total variation between the marginals of sequences ``(N, D)`` and of the law, averaged.

    Args:
        states: number of symbols that y may contain; default: those of the law and a mask.
    """
    states = states or law.vocabulary + 1
    return (
        total_variation(frequencies(y.T.cpu().long(), states), marginals(law, states)).mean().item()
    )


def pair_tv(y: State, law: Sequences, states: int | None = None) -> float:
    """Total variation of adjacent pairs, averaged; unlike marginals, it sees dependence.

    It is 0 for sequences of one position.
    """
    states = states or law.vocabulary + 1
    if law.length == 1:
        return 0.0
    y = y.cpu().long()  # tokens may be uint8
    codes = (y[:, :-1] * states + y[:, 1:]).T
    pairs = pad(law.pair_marginals().cpu(), (0, states - law.vocabulary) * 2).flatten(1)
    return total_variation(frequencies(codes, states**2), pairs).mean().item()
