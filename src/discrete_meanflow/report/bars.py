"""Bar charts as SVG: frequencies of samples over those of held-out records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discrete_meanflow.report.chart import BOTTOM, LEFT, RIGHT, TOP, Axis, Tick

MOST_BARS = 64
LABEL = 12  # characters below a bar
WIDE, NARROW = 0.92, 0.46  # of the place of a bar: held-out records, samples


@dataclass(frozen=True)
class Bar:
    """A rectangle and the text that the pointer shows."""

    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True)
class BarChart:
    """Bars of held-out records and, in front of them, narrow ones of samples.

    Args:
        slanted: whether the labels below are words, which need room.
    """

    title: str
    held_out: tuple[Bar, ...]
    samples: tuple[Bar, ...]
    labels: tuple[Tick, ...]
    ticks: tuple[Tick, ...]
    slanted: bool

    @classmethod
    def of(
        cls,
        title: str,
        labels: Sequence[Any],
        held_out: Sequence[Any],
        samples: Sequence[Any],
        words: bool,
    ) -> "BarChart":
        """A bar for each label; of numbers, only the first, the middle and the last are labelled.

        Raises ValueError if there is no bar or a value is no frequency.
        """
        rows = list(zip(labels, held_out, samples, strict=True))[:MOST_BARS]
        texts = [str(label) for label, _, _ in rows]
        pairs = [(_frequency(real), _frequency(sample)) for _, real, sample in rows]
        y = Axis([0.0, max(max(pair) for pair in pairs) or 1.0], BOTTOM, TOP, log=False)
        titles = [
            f"{text}: held out {real:.3f}, samples {sample:.3f}"
            for text, (real, sample) in zip(texts, pairs, strict=True)
        ]
        places = range(len(texts)) if words else sorted({0, len(texts) // 2, len(texts) - 1})
        return cls(
            title,
            _bars(y, WIDE, [real for real, _ in pairs], titles),
            _bars(y, NARROW, [sample for _, sample in pairs], titles),
            tuple(Tick(_centre(i, len(pairs)), texts[i][:LABEL]) for i in places),
            tuple(y.ticks()),
            words,
        )


def _bars(y: Axis, share: float, frequencies: list[float], titles: list[str]) -> tuple[Bar, ...]:
    width = share * (RIGHT - LEFT) / len(frequencies)
    bars = []
    for i, (frequency, title) in enumerate(zip(frequencies, titles, strict=True)):
        left, top = _centre(i, len(titles)) - width / 2, y(frequency)
        bars.append(Bar(round(left, 1), top, round(width, 1), round(BOTTOM - top, 1), title))
    return tuple(bars)


def _centre(index: int, count: int) -> float:
    return round(LEFT + (index + 0.5) * (RIGHT - LEFT) / count, 1)


def _frequency(value: Any) -> float:
    frequency = float(value)
    if not 0 <= frequency <= 1:
        raise ValueError(f"{frequency:g} is no frequency")
    return frequency
