"""Scores of conditional samples: records whose observed positions are real and the rest generated.

``observed`` is bool ``(n, D)`` and has the masks of both sets of records, row by row. A mask does
not depend on its record, so real records of any origin have the same law given a mask.
"""

import numpy
import torch
from torch import Tensor

from discrete_meanflow.data.tokens import CHUNK_ROWS
from discrete_meanflow.errors import InputError
from discrete_meanflow.metric import forest
from discrete_meanflow.metric.two_samples import (
    MAX_PAIRS,
    empirical_tv,
    pair_code,
    position_pairs,
)
from discrete_meanflow.types import State

TREES = 100  # of the forests of completions, of which an evaluation has a dozen
MIN_PAIR_RECORDS = 20  # with exactly one of two positions observed, for a pair to be compared
MAX_LOOKUPS = 200_000_000  # pairs of symbols read from the training set
MAX_TABLE = 1 << 22  # pairs of symbols up to which those of the training set are ticked in a table


def completion_auc(x: State, y: State, observed: Tensor, seed: int = 0) -> float:
    """C2ST AUC of completions y against real records x; the forest also sees the mask.

    The halves that train and test the forest are split by row: rows with the same mask are in the
    same half, so the forest cannot learn the masks of the test half.
    """
    if len(x) != len(y) or len(y) != len(observed):
        raise InputError(
            f"completions: {len(x)} real records, {len(y)} completions and {len(observed)} masks"
        )
    if len(x) < 4:
        raise InputError(f"the two-sample test needs at least 4 records of each, got {len(x)}")
    both = torch.cat([x, y])
    tokens = forest.features(both, int(both.max()) + 1)
    features = torch.cat([tokens, observed.repeat(2, 1).to(tokens.dtype)], 1).numpy()
    order = numpy.random.default_rng(seed).permutation(len(x))
    train, test = (
        numpy.concatenate([half, half + len(x)])
        for half in (order[: len(x) // 2], order[len(x) // 2 :])
    )
    completed = torch.arange(len(both)) >= len(x)
    classifier = forest.random_forest(seed, TREES).fit(features[train], completed[train])
    return forest.auc(completed[test], classifier.predict_proba(features[test])[:, -1])


def adjacent_pair_tv(
    x: State, y: State, observed: Tensor, vocabulary: int, pad: int | None = None
) -> float | None:
    """Total variation of adjacent symbols of which one is observed, at any position.

    Whether the first or the second is observed is part of the pair. None if there is no pair.

    Args:
        pad: pairs that begin with this token lie after the end of a string and do not count.
    """
    one_observed = observed[:, :-1] != observed[:, 1:]
    codes = []
    for z in (x.long(), y.long()):
        pairs = 2 * (z[:, :-1] * vocabulary + z[:, 1:]) + observed[:, :-1]
        counted = one_observed if pad is None else one_observed & (z[:, :-1] != pad)
        codes.append(pairs[counted])
    return empirical_tv(*codes) if any(map(len, codes)) else None


def position_pair_tv(
    x: State, y: State, observed: Tensor, vocabulary: int, seed: int = 0
) -> float | None:
    """Total variation of two positions of which one is observed, averaged over pairs.

    At most ``MAX_PAIRS`` pairs of positions are compared. Those with fewer than
    ``MIN_PAIR_RECORDS`` records in which exactly one is observed do not count; None if none does.
    """
    distances = []
    for i, j in position_pairs(x.shape[1], seed):
        rows = observed[:, i] != observed[:, j]
        if int(rows.sum()) >= MIN_PAIR_RECORDS:
            codes = (pair_code(z, i, j, vocabulary)[rows] for z in (x, y))
            distances.append(empirical_tv(*codes))
    return sum(distances) / len(distances) if distances else None


def pairs_looked_up(length: int, train_records: int) -> int:
    """Number of pairs of positions that ``unseen_pairs`` looks up in the training set."""
    affordable = max(1, min(MAX_PAIRS, MAX_LOOKUPS // train_records))
    return min(length * (length - 1) // 2, affordable)


def unseen_pairs(
    x: State, observed: Tensor, train: State, vocabulary: int, seed: int = 0
) -> Tensor:
    """Fraction of pairs, one observed and one generated, that never occur in training.

    A pair is two symbols at two positions. With a large training set fewer pairs of positions are
    looked up, see ``pairs_looked_up``.

    Args:
        x: sets of records, ``(*sets, n, D)``; the result has shape ``(*sets,)``.
        observed: masks that broadcast to the shape of x.
    """
    unseen, total = (torch.zeros(x.shape[:-2], dtype=torch.long) for _ in range(2))
    for i, j in position_pairs(x.shape[-1], seed, pairs_looked_up(x.shape[-1], len(train))):
        counted = observed[..., i] != observed[..., j]
        seen = _occurs(pair_code(x, i, j, vocabulary), train, i, j, vocabulary)
        unseen += (counted & ~seen).sum(-1)
        total += counted.sum(-1)
    return unseen.double() / total.clamp(min=1)


def _occurs(codes: Tensor, train: State, i: int, j: int, vocabulary: int) -> Tensor:
    """Whether each pair of symbols occurs at positions i and j of a training record."""
    chunks = (pair_code(rows, i, j, vocabulary) for rows in train.split(CHUNK_ROWS))
    if vocabulary**2 <= MAX_TABLE:
        table = torch.zeros(vocabulary**2, dtype=torch.bool)
        for chunk in chunks:
            table[chunk] = True
        return table[codes]
    seen = torch.zeros_like(codes, dtype=torch.bool)
    for chunk in chunks:
        seen |= torch.isin(codes, chunk)
    return seen
