"""Live progress in the terminal: a bar for each cell, with loss, error and time left."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)


class ProgressEvent(Protocol):
    """What a training cell tells: see ``experiment.run.Progress``."""

    @property
    def cell(self) -> str: ...
    @property
    def iteration(self) -> int: ...
    @property
    def iterations(self) -> int: ...
    @property
    def loss(self) -> float: ...
    @property
    def metrics(self) -> dict[str, float]: ...
    @property
    def seconds(self) -> float: ...


class Bars:
    """One bar per cell; call it with each piece of news."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.tasks: dict[str, TaskID] = {}

    def __call__(self, news: ProgressEvent) -> None:
        if news.cell not in self.tasks:
            self.tasks[news.cell] = self.progress.add_task(
                news.cell, total=news.iterations, numbers=""
            )
        numbers = [f"loss {news.loss:.3g}"]
        numbers += [
            f"{name.replace('_', ' ')} {v:.1e}" for name, v in list(news.metrics.items())[:1]
        ]
        self.progress.update(
            self.tasks[news.cell], completed=news.iteration, numbers="  ".join(numbers)
        )


@contextmanager
def bars(console: Console) -> Iterator[Bars]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[numbers]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, refresh_per_second=4) as progress:
        yield Bars(progress)
