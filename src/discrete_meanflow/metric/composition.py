"""Chapman-Kolmogorov defect: the gap between two steps of a kernel and one."""

import itertools
from collections.abc import Callable, Iterator

from discrete_meanflow.types import Matrix

TIMES = (0.0, 0.25, 0.5, 0.75, 1.0)


def composition_defect(kernel: Callable[[float, float], Matrix]) -> float:
    """``max |K_{s,t} K_{r,s} - K_{r,t}|`` over all r < s < t in ``TIMES``.

    Args:
        kernel: maps (r, t) to the matrix ``K_{r,t}[y, x]``.
    """
    K = {pair: kernel(*pair) for pair in itertools.combinations(TIMES, 2)}
    return max(float((K[s, t] @ K[r, s] - K[r, t]).abs().max()) for r, s, t in time_triples())


def time_triples() -> Iterator[tuple[float, float, float]]:
    """All ``r < s < t`` in ``TIMES``."""
    return itertools.combinations(TIMES, 3)
