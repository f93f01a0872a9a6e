"""Line charts as SVG: the geometry, which the template draws."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

WIDTH, HEIGHT = 360, 210
LEFT, RIGHT, TOP, BOTTOM = 52, 350, 12, 176  # of the plot
MOST_POINTS = 300  # of a series
MOST_SERIES = 40
COLORS = 8  # of the style
TICKS = 5  # of an axis, about
DECADES = 1.5  # above which positive values stand on a logarithmic scale
LARGEST, SMALLEST = 1e100, 1e-100  # of the values: their differences are numbers, too
ENOUGH_TICKS = 9


@dataclass(frozen=True)
class Series:
    """Points ``(x, y)`` of one colour."""

    name: str
    color: int
    points: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, name: str, color: int, xs: Iterable[Any], ys: Iterable[Any]) -> "Series":
        """Pairs of finite numbers; of many, every n-th and the last."""
        pairs = [(float(x), float(y)) for x, y in zip(xs, ys, strict=False) if y is not None]
        finite = [(x, y) for x, y in pairs if abs(x) < LARGEST and abs(y) < LARGEST]
        stride = -(-len(finite) // MOST_POINTS) or 1
        return cls(name, color % COLORS, tuple(finite[::-1][::stride][::-1]))


@dataclass(frozen=True)
class Level:
    """A horizontal dashed line, such as the score of held-out records."""

    name: str
    color: int | None  # None: grey
    y: float


@dataclass(frozen=True)
class Tick:
    """A label of an axis and its place."""

    at: float
    text: str


class Axis:
    """Maps values to places: linear, or logarithmic for positive values of several decades."""

    def __init__(self, values: Sequence[float], start: float, end: float, log: bool) -> None:
        self.log = log
        low, high = self._scaled(min(values)), self._scaled(max(values))
        scale = max(abs(low), abs(high))
        if high - low <= max(1e-9 * scale, SMALLEST):  # all values are the same
            margin = scale / 10 if scale > SMALLEST else 1.0
            low, high = low - margin, high + margin
        self.low, self.high = low, high
        self.start, self.end = start, end

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def __call__(self, value: float) -> float:
        share = (self._scaled(value) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[Tick]:
        """Round values between the ends."""
        if self.log:
            powers = range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)
            values = [10.0**power for power in powers[:: -(-len(powers) // TICKS) or 1]]
            if len(values) > 1:
                return [Tick(self(value), tick_text(value)) for value in values]
            values = [10**self.low, 10**self.high]
            return [Tick(self(value), tick_text(float(f"{value:.1g}"))) for value in values]
        step = _round_step((self.high - self.low) / TICKS)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        numbers = range(first, last + 1)[: 3 * TICKS]
        return [Tick(self(i * step), tick_text(i * step)) for i in numbers]


@dataclass(frozen=True)
class Chart:
    """Lines against a common x axis.

    Args:
        steps: whether x is a number of forward passes: a logarithmic axis with a tick for each.
    """

    title: str
    x_name: str
    series: tuple[Series, ...]
    levels: tuple[Level, ...] = ()
    steps: bool = False

    @classmethod
    def of(
        cls,
        title: str,
        x_name: str,
        series: Iterable[Series],
        levels: Iterable[Level] = (),
        steps: bool = False,
    ) -> "tuple[Chart, ...]":
        """A chart of all series that have points; none if there is none."""
        drawn = tuple(s for s in series if s.points)[:MOST_SERIES]
        shown = tuple(level for level in levels if abs(level.y) < LARGEST)[:MOST_SERIES]
        return (cls(title, x_name, drawn, shown, steps),) if drawn else ()

    @cached_property
    def x(self) -> Axis:
        values = [x for s in self.series for x, _ in s.points]
        return Axis(values, LEFT + 6, RIGHT - 6, log=self.steps and min(values) > 0)

    @cached_property
    def y(self) -> Axis:
        values = [y for s in self.series for _, y in s.points]
        values += [level.y for level in self.levels]
        wide = min(values) > 0 and math.log10(max(values) / min(values)) > DECADES
        wide = wide and not self.steps  # scores are compared by their differences
        return Axis(values, BOTTOM - 8, TOP + 8, log=wide)

    @property
    def x_ticks(self) -> list[Tick]:
        values = sorted({x for s in self.series for x, _ in s.points})
        if self.steps and len(values) <= ENOUGH_TICKS:
            return [Tick(self.x(value), tick_text(value)) for value in values]
        return self.x.ticks()

    def places(self, series: Series) -> str:
        """The points of a series in the units of the drawing."""
        return " ".join(f"{self.x(x):g},{self.y(y):g}" for x, y in series.points)


def tick_text(value: float) -> str:
    """A round number: ``0.05``, ``12,000``, ``1e-05``."""
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.0e}" if float(f"{value:.0e}") == value else f"{value:.1e}"
    return f"{round(value, 6):,g}" if abs(value) < 1e3 else f"{value:,.0f}"


def _round_step(step: float) -> float:
    """The next larger one of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)
