"""How far one set of sequences is from another, where no law is known."""

import itertools

import numpy
import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.metric.divergence import frequencies, total_variation
from discrete_meanflow.types import State

MOST_PAIRS = 1_000  # pairs of positions that are looked at
MOST_KNOWN = 2_000_000  # training records among which copies are sought
MOST_NEIGHBOURS = 20_000  # training records among which a neighbour is sought


def gram_tv(x: State, y: State, vocabulary: int, order: int = 2) -> float:
    """TV between the laws of ``order`` symbols in a row, wherever they stand."""
    if x.shape[1] < order:
        return 0.0
    found = []
    for z in (x, y):
        grams = sum(
            z[:, i : z.shape[1] - order + 1 + i].long() * vocabulary ** (order - 1 - i)
            for i in range(order)
        )
        assert isinstance(grams, Tensor)
        found.append(grams.flatten())
    # Of the many grams there could be, few are there: number those.
    _, number = torch.unique(torch.cat(found), return_inverse=True)
    kinds = int(number.max()) + 1
    laws = [frequencies(part, kinds) for part in number.split([len(found[0]), len(found[1])])]
    return total_variation(laws[0], laws[1]).item()


def column_pair_tv(x: State, y: State, vocabulary: int, seed: int = 0) -> float:
    """Mean over pairs of positions of the TV between their joint laws."""
    pairs = list(itertools.combinations(range(x.shape[1]), 2))
    if not pairs:
        return 0.0
    if len(pairs) > MOST_PAIRS:
        picked = numpy.random.default_rng(seed).choice(len(pairs), MOST_PAIRS, replace=False)
        pairs = [pairs[i] for i in picked]
    total = 0.0
    for i, j in pairs:
        laws = [frequencies((z[:, i].long() * vocabulary + z[:, j]), vocabulary**2) for z in (x, y)]
        total += total_variation(laws[0], laws[1]).item()
    return total / len(pairs)


def copies(x: State, train: State) -> float:
    """The share of x that are training records, to the letter (the first two million)."""
    known = {row.tobytes() for row in train[:MOST_KNOWN].to(torch.int32).numpy()}
    return float(numpy.mean([row.tobytes() in known for row in x.to(torch.int32).numpy()]))


def nearest(x: State, train: State, seed: int = 0) -> float:
    """Mean share of positions in which a record differs from the nearest training record."""
    if len(train) > MOST_NEIGHBOURS:
        picked = numpy.random.default_rng(seed).choice(len(train), MOST_NEIGHBOURS, replace=False)
        train = train[torch.from_numpy(picked)]
    symbols = int(max(x.max(), train.max())) + 1
    points = [torch.nn.functional.one_hot(z.long(), symbols).flatten(1).half() for z in (x, train)]
    same = [(lot.float() @ points[1].float().T).amax(-1) for lot in points[0].split(500)]
    return 1 - torch.cat(same).mean().item() / x.shape[1]


def telling_apart(x: State, y: State, seed: int = 0) -> float:
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
    both = torch.cat([x[:count], y[:count]]).long()
    points = torch.nn.functional.one_hot(both, int(both.max()) + 1).flatten(1).bool().numpy()
    which = numpy.repeat([0, 1], count)
    order = numpy.random.default_rng(seed).permutation(2 * count)
    learn, judge = order[:count], order[count:]
    forest = RandomForestClassifier(200, random_state=seed, n_jobs=-1)
    belief = forest.fit(points[learn], which[learn]).predict_proba(points[judge])[:, -1]
    return float(roc_auc_score(which[judge], belief))
