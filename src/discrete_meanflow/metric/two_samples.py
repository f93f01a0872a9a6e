"""How far one set of sequences is from another, where no law is known."""

import itertools

import numpy
import torch
from torch import Tensor

from discrete_meanflow.data.tokens import CHECKED, stored
from discrete_meanflow.errors import InputError
from discrete_meanflow.metric.divergence import frequencies, total_variation
from discrete_meanflow.types import State

MOST_PAIRS = 1_000  # pairs of positions that are looked at
MOST_KNOWN = 2_000_000  # training records among which copies are sought
MOST_NEIGHBOURS = 20_000  # training records among which a neighbour is sought
ONE_HOT = 64  # symbols up to which a classifier sees each by itself
COMPARED = 2 * 10**9  # symbols that are compared for that, at most


def ngram_tv(x: State, y: State, vocabulary: int, order: int = 2, pad: int | None = None) -> float:
    """TV between the laws of ``order`` symbols in a row, wherever they stand.

    What begins behind the end of a string, with its ``pad``, is no gram of it.
    """
    if x.shape[1] < order:
        return 0.0
    found = []
    for z in (x.long(), y.long()):
        last = z.shape[1] - order + 1
        grams = torch.stack([z[:, i : last + i] for i in range(order)], -1)
        grams = grams[grams[..., 0] != pad] if pad is not None else grams.flatten(0, 1)
        found.append((grams * vocabulary ** torch.arange(order)).sum(-1))
    return law_tv(found[0], found[1])


def law_tv(x: Tensor, y: Tensor) -> float:
    """TV between the laws of two lists of numbers; of the many there could be, few are there."""
    if not len(x) or not len(y):
        return 1.0
    _, number = torch.unique(torch.cat([x, y]), return_inverse=True)
    kinds = int(number.max()) + 1
    laws = [frequencies(part, kinds) for part in number.split([len(x), len(y)])]
    return total_variation(laws[0], laws[1]).item()


def column_pair_tv(x: State, y: State, vocabulary: int, seed: int = 0) -> float:
    """Mean over pairs of positions of the TV between their joint laws."""
    pairs = _positions(x.shape[1], seed)
    if not pairs:
        return 0.0
    both = ([_pair(z, i, j, vocabulary) for z in (x, y)] for i, j in pairs)
    return sum(law_tv(a, b) for a, b in both) / len(pairs)


def _positions(length: int, seed: int) -> list[tuple[int, int]]:
    """Pairs of positions: all, or a thousand picked at random."""
    pairs = list(itertools.combinations(range(length), 2))
    if len(pairs) <= MOST_PAIRS:
        return pairs
    picked = numpy.random.default_rng(seed).choice(len(pairs), MOST_PAIRS, replace=False)
    return [pairs[i] for i in picked]


def _pair(z: State, i: int, j: int, vocabulary: int) -> Tensor:
    """A number for what stands at two positions."""
    return z[:, i].long() * vocabulary + z[:, j]


def pairs_seen(x: State, train: State, vocabulary: int, seed: int = 0) -> float:
    """The share of x in which every pair of symbols, at its two positions, is one of training.

    Of many positions, a thousand pairs are looked at.
    """
    fine = torch.ones(len(x), dtype=torch.bool)
    for i, j in _positions(x.shape[1], seed):
        seen = _pair(train, i, j, vocabulary).unique()
        fine &= torch.isin(_pair(x, i, j, vocabulary), seen)
    return fine.double().mean().item()


def copies(x: State, train: State) -> float:
    """The share of x that are training records, to the letter (the first two million)."""
    small = stored(max(int(x.max()), int(train.max())) + 1)
    sought = [row.tobytes() for row in x.to(small).numpy()]
    wanted, found = set(sought), set()
    for some in train[:MOST_KNOWN].split(CHECKED):
        found |= wanted.intersection(row.tobytes() for row in some.to(small).numpy())
    return sum(row in found for row in sought) / len(sought)


def neighbours_among(x: State, train: State) -> int:
    """How many training records are compared with each of x: as many as the time allows."""
    return min(len(train), max(1, min(MOST_NEIGHBOURS, COMPARED // (x.shape[1] * len(x)))))


def nearest(x: State, train: State, seed: int = 0) -> float:
    """Mean share of positions in which a record differs from the nearest training record."""
    most = neighbours_among(x, train)
    if len(train) > most:
        picked = numpy.random.default_rng(seed).choice(len(train), most, replace=False)
        train = train[torch.from_numpy(picked)]
    lot = max(1, 2**27 // train.numel())
    far = [(some[:, None] != train).sum(-1).amin(-1) for some in x.split(lot)]
    return torch.cat(far).double().mean().item() / x.shape[1]


def c2st_auc(x: State, y: State, seed: int = 0) -> float:
    """Area under the curve of a classifier that tells x from y, on records it has not seen.

    0.5: it cannot; 1: it always can.
    """
    try:
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.metrics import roc_auc_score
    except ImportError:
        raise InputError("the two-sample test needs scikit-learn: pip install it") from None
    count = min(len(x), len(y))
    if count < 4:
        raise InputError(f"the two-sample test needs at least 4 records of each, got {count}")
    both = torch.cat([x[:count], y[:count]])
    most = int(both.max())
    few = most < ONE_HOT  # symbols by themselves; of many, their numbers
    # Not by one_hot, whose whole numbers of 64 bits would fill memory.
    points = ((both[..., None] == torch.arange(most + 1)).flatten(1) if few else both).numpy()
    which = numpy.repeat([0, 1], count)
    order = numpy.random.default_rng(seed).permutation(2 * count)
    learn, judge = order[:count], order[count:]
    forest = RandomForestClassifier(200, random_state=seed, n_jobs=-1)
    belief = forest.fit(points[learn], which[learn]).predict_proba(points[judge])[:, -1]
    return float(roc_auc_score(which[judge], belief))
