"""Distances between two sets of sequences, for data without a known distribution."""

import numpy
import torch
from torch import Tensor

from discrete_meanflow.data.tokens import CHUNK_ROWS, token_dtype
from discrete_meanflow.errors import InputError
from discrete_meanflow.metric import forest
from discrete_meanflow.metric.divergence import frequencies, total_variation
from discrete_meanflow.types import State

MAX_PAIRS = 1_000  # pairs of positions compared
MAX_COPIES_SEARCHED = 2_000_000  # training records searched for copies
MAX_NEIGHBOURS = 20_000  # training records searched for the nearest one
MAX_COMPARISONS = 2 * 10**9  # symbols compared in that search


def ngram_tv(x: State, y: State, vocabulary: int, order: int = 2, pad: int | None = None) -> float:
    """Total variation between the n-gram frequencies of x and y, at any position.

    Args:
        order: length n of the n-grams.
        pad: n-grams that begin with this token lie after the end of a string and do not count.
    """
    if x.shape[1] < order:
        return 0.0
    codes = []
    for z in (x.long(), y.long()):
        starts = z.shape[1] - order + 1
        ngrams = torch.stack([z[:, i : starts + i] for i in range(order)], -1)
        ngrams = ngrams[ngrams[..., 0] != pad] if pad is not None else ngrams.flatten(0, 1)
        codes.append((ngrams * vocabulary ** torch.arange(order)).sum(-1))
    return empirical_tv(codes[0], codes[1])


def empirical_tv(x: Tensor, y: Tensor) -> float:
    """Total variation between the empirical laws of two lists of integers; 1 if one is empty."""
    if not len(x) or not len(y):
        return 1.0
    # Only the values that occur get a column: there may be V^n possible ones.
    _, index = torch.unique(torch.cat([x, y]), return_inverse=True)
    values = int(index.max()) + 1
    laws = [frequencies(part, values) for part in index.split([len(x), len(y)])]
    return total_variation(laws[0], laws[1]).item()


def column_pair_tv(x: State, y: State, vocabulary: int, seed: int = 0) -> float:
    """Total variation between the joint laws of two positions, averaged over pairs."""
    pairs = position_pairs(x.shape[1], seed)
    if not pairs:
        return 0.0
    codes = ([pair_code(z, i, j, vocabulary) for z in (x, y)] for i, j in pairs)
    return sum(empirical_tv(a, b) for a, b in codes) / len(pairs)


def position_pairs(length: int, seed: int, most: int = MAX_PAIRS) -> list[tuple[int, int]]:
    """All pairs of positions ``i < j``, or ``most`` random ones."""
    total = length * (length - 1) // 2
    if total <= most:
        numbers = numpy.arange(total)
    else:
        numbers = numpy.random.default_rng(seed).choice(total, most, replace=False)
    # Pairs are numbered by i, then j: there may be too many for a list.
    first = numpy.arange(length) * (2 * length - numpy.arange(length) - 1) // 2
    i = numpy.searchsorted(first[:-1], numbers, "right") - 1
    return list(zip(i.tolist(), (numbers - first[i] + i + 1).tolist(), strict=True))


def pair_code(z: State, i: int, j: int, vocabulary: int) -> Tensor:
    """One integer for the symbols at positions i and j."""
    return z[..., i].long() * vocabulary + z[..., j]


def pairs_seen(x: State, train: State, vocabulary: int, seed: int = 0) -> float:
    """Fraction of records of x all of whose symbol pairs occur at the same positions in train.

    At most ``MAX_PAIRS`` pairs of positions are checked.
    """
    all_seen = torch.ones(len(x), dtype=torch.bool)
    for i, j in position_pairs(x.shape[1], seed):
        seen = pair_code(train, i, j, vocabulary).unique()
        all_seen &= torch.isin(pair_code(x, i, j, vocabulary), seen)
    return all_seen.double().mean().item()


def copies(x: State, train: State) -> float:
    """Fraction of x that equals a training record, among the first two million."""
    dtype = token_dtype(max(int(x.max()), int(train.max())) + 1)
    rows = [row.tobytes() for row in x.to(dtype).numpy()]
    distinct, copied = set(rows), set()
    for chunk in train[:MAX_COPIES_SEARCHED].split(CHUNK_ROWS):
        copied |= distinct.intersection(row.tobytes() for row in chunk.to(dtype).numpy())
    return sum(row in copied for row in rows) / len(rows)


def neighbours_among(x: State, train: State) -> int:
    """Number of training records that ``nearest`` compares with each record of x."""
    affordable = MAX_COMPARISONS // (x.shape[1] * len(x))
    return min(len(train), max(1, min(MAX_NEIGHBOURS, affordable)))


def nearest(x: State, train: State, seed: int = 0) -> float:
    """Mean fraction of positions in which a record differs from its nearest training record."""
    count = neighbours_among(x, train)
    if len(train) > count:
        chosen = numpy.random.default_rng(seed).choice(len(train), count, replace=False)
        train = train[torch.from_numpy(chosen)]
    train, chunks = train.float(), x.float().split(max(1, 2**25 // len(train)))
    distances = [torch.cdist(chunk, train, p=0).amin(-1) for chunk in chunks]  # of Hamming
    return torch.cat(distances).double().mean().item() / x.shape[1]


def c2st_auc(x: State, y: State, seed: int = 0) -> float:
    """Classifier two-sample test: ROC AUC of a random forest that separates x from y.

    The forest trains on half of the records and is scored on the other half; 0.5 means
    indistinguishable, 1 perfectly separable (Lopez-Paz & Oquab 2017, arXiv:1610.06545, with the
    AUC instead of the accuracy).
    """
    count = min(len(x), len(y))
    if count < 4:
        raise InputError(f"the two-sample test needs at least 4 records of each, got {count}")
    both = torch.cat([x[:count], y[:count]])
    features = forest.features(both, int(both.max()) + 1).numpy()
    from_y = torch.arange(2 * count) >= count
    order = numpy.random.default_rng(seed).permutation(2 * count)
    train, test = order[:count], order[count:]
    classifier = forest.random_forest(seed).fit(features[train], from_y[train])
    return forest.auc(from_y[test], classifier.predict_proba(features[test])[:, -1])
