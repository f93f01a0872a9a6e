"""A code of two tokens in which neighbouring numbers are close."""

from dataclasses import dataclass
from functools import cached_property

import numpy

Array = numpy.ndarray


@dataclass(frozen=True)
class ReflectedCode:
    """Bins and places inside them as two tokens, as in a reflected Gray code (Gray 1953).

    Every second bin counts backwards, so the last number of a bin and the first of the next have
    nearly the same second token: where a model is unsure of the bin, it need not change the place.
    The places of a bin are spread over all symbols, so a symbol means the same part of each bin.

    Args:
        counts: number of places of each bin.
    """

    counts: Array

    @cached_property
    def width(self) -> int:
        """Number of symbols of the second token."""
        return int(self.counts.max())

    def symbols(self, bins: Array, places: Array) -> Array:
        """The second token of places, the middle one of those that stand for it."""
        n = self.counts[bins]
        first, end = -(-self.width * places // n), -(-self.width * (places + 1) // n)
        return self._reflected(bins, (first + end - 1) // 2)

    def places(self, bins: Array, symbols: Array) -> Array:
        """The places that second tokens stand for."""
        return self._reflected(bins, symbols) * self.counts[bins] // self.width

    def _reflected(self, bins: Array, symbols: Array) -> Array:
        return numpy.where(bins % 2 == 1, self.width - 1 - symbols, symbols)
