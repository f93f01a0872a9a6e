"""Peers of ``bench/tables.py``: generators of rows that train until a deadline."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import pandas
from torch.optim.optimizer import register_optimizer_step_post_hook


class Peer(ABC):
    """A generator of rows, in an implementation of its own."""

    @property
    @abstractmethod
    def version(self) -> str:
        """Package and version, or commit."""

    @abstractmethod
    def train(self, rows: pandas.DataFrame, discrete: Sequence[str], deadline: float) -> int:
        """Train until ``time.monotonic()`` is ``deadline``, and return the number of steps.

        Args:
            rows: without missing cells.
            discrete: columns of levels; the others are numbers.
        """

    @abstractmethod
    def sample(self, n: int) -> pandas.DataFrame:
        """Generate n rows."""


class OutOfTimeError(Exception):
    """The deadline is over."""


class Gan(Peer):
    """CTGAN or TVAE (Xu et al., 2019) of the package ctgan, with its default settings.

    ``fit`` takes a number of epochs. The number is unlimited here, and an exception after the first
    optimiser step past the deadline ends the training.
    """

    def __init__(self, name: str, seed: int) -> None:
        import ctgan

        self._model: Any = getattr(ctgan, name)(epochs=10**9)
        self._model.set_random_state(seed)

    @property
    def version(self) -> str:
        return f"ctgan {version('ctgan')}"

    def train(self, rows: pandas.DataFrame, discrete: Sequence[str], deadline: float) -> int:
        steps = 0

        def count(*_: object) -> None:
            nonlocal steps
            steps += 1
            if time.monotonic() > deadline:
                raise OutOfTimeError

        hook = register_optimizer_step_post_hook(count)
        with suppress(OutOfTimeError):
            self._model.fit(rows, list(discrete))
        hook.remove()
        return steps

    def sample(self, n: int) -> pandas.DataFrame:
        return self._model.sample(n)
