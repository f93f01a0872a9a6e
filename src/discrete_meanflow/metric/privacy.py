"""Whether samples are closer to training rows than other real rows are."""

from collections.abc import Sequence

import numpy
import torch
from torch import Tensor

from discrete_meanflow.metric import forest
from discrete_meanflow.metric.table_values import Array, random_rows

MAX_ROWS = 10_000  # of samples and of held-out rows
MAX_COMPARISONS = 10**8  # pairs of rows that are compared at a time
CHUNK = 2**23  # of those that are in memory together
RANKS = numpy.linspace(0, 1, 101)  # at which quantiles are known exactly
CLOSEST, LOW = 0.01, 0.05  # quantiles of the distances


class RowDistance:
    r"""Distance of rows: $\sum_c d_c(x_c, y_c)$ over columns c, of which each adds at most 1.

    $d_c$ is the difference of quantile ranks for numbers, and 0 or 1 for levels. A missing number
    counts as the median, and one half is added if only one of two is missing.

    Args:
        train: rows in which numbers have their ranks.
        numeric: whether each column is one of numbers.
    """

    def __init__(self, train: Array, numeric: Sequence[bool]) -> None:
        self.numeric = numpy.array(numeric, dtype=bool)
        self.ranks = [_knots(column) for column in train[:, self.numeric].T]

    def closest(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Distance of each row of x to the closest one of y, and of each row of y to one of x."""
        (numbers, levels), (others, other_levels) = self._places(x), self._places(y)
        to_x, rows = torch.full((len(y),), torch.inf), max(1, CHUNK // len(y))
        to_y = []
        for a, b in zip(numbers.split(rows), levels.split(rows), strict=True):
            distances = torch.cdist(a, others, p=1) + torch.cdist(b, other_levels, p=0)
            to_y.append(distances.amin(1))
            to_x = torch.minimum(to_x, distances.amin(0))
        return torch.cat(to_y).numpy(), to_x.numpy()

    def _places(self, x: Array) -> tuple[Tensor, Tensor]:
        """Ranks of numbers beside half ones where they are missing, and codes of levels."""
        numbers, levels = x[:, self.numeric], x[:, ~self.numeric]
        places = numpy.full((2, *numbers.shape), 0.5)  # ranks, and where they are missing
        for i, (values, ranks) in enumerate(self.ranks):
            places[0, :, i] = numpy.interp(numbers[:, i], values, ranks)
        missing = numpy.isnan(numbers)
        places[0][missing], places[1][~missing] = 0.5, 0.0
        codes = numpy.nan_to_num(levels, nan=-1)
        return torch.from_numpy(numpy.concatenate(list(places), 1)).float(), torch.from_numpy(
            codes
        ).float()


def _knots(column: Array) -> tuple[Array, Array]:
    """Values of a column and their ranks, between which ranks are linear.

    A rank that steps at each training row would tell these from all others.
    """
    present = column[~numpy.isnan(column)]
    values = numpy.quantile(present, RANKS) if len(present) else numpy.zeros(len(RANKS))
    values, index = numpy.unique(values, return_inverse=True)
    return values, numpy.bincount(index, RANKS) / numpy.bincount(index)


class PrivacyTest:
    """Compares the distances of rows to training rows with those of held-out rows.

    The distance to the closest record (DCR) is that of Zhao et al. 2021 (CTAB-GAN,
    arXiv:2102.08369) and Kotelnikov et al. 2023 (TabDDPM, arXiv:2209.15421). The membership
    inference attack calls a row a training row if a sample is close to it (Chen et al. 2020,
    GAN-Leaks, arXiv:1909.03935).

    Args:
        train: training rows; of many, as many random ones as can be compared.
        held_out: rows that training has not seen.
        numeric: whether each column is one of numbers.
    """

    def __init__(
        self, train: Array, held_out: Array, numeric: Sequence[bool], seed: int = 0
    ) -> None:
        self.seed, self.held_out = seed, random_rows(held_out, MAX_ROWS, seed)
        most = max(MAX_ROWS, MAX_COMPARISONS // len(self.held_out))
        self.train = random_rows(train, most, seed)
        self.distance = RowDistance(self.train, numeric)
        self.held_out_distances, _ = self.distance.closest(self.held_out, self.train)

    def __call__(self, x: Array) -> tuple[dict[str, float], Array]:
        """Scores of rows, and their distances to the closest training rows."""
        x = random_rows(x, MAX_ROWS, self.seed)
        distances, members = self.distance.closest(x, self.train)
        _, others = self.distance.closest(x, self.held_out)
        limit = numpy.quantile(self.held_out_distances, CLOSEST)
        is_member = torch.arange(len(members) + len(others)) < len(members)
        scores = {
            "DCR median": float(numpy.median(distances)),
            "DCR 5 %": float(numpy.quantile(distances, LOW)),
            "very close": float((distances < limit).mean()),
            "membership AUC": forest.auc(is_member, -numpy.concatenate([members, others])),
        }
        return scores, distances
