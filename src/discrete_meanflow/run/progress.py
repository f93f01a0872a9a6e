"""Progress of a run: one event, one printer."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from discrete_meanflow.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from discrete_meanflow.kernel import Kernel

TOTAL = 1000  # of a bar


@dataclass(frozen=True)
class ProgressEvent:
    """The state of a training after a block of steps.

    Events without a kernel can be pickled, so that worker processes can send them.

    Args:
        name: what is trained, or ``teacher pairs`` while these are generated.
        iteration: steps so far, over all stages.
        iterations: steps in total.
        loss: mean loss of the block; None while teacher pairs are generated.
        seconds: training time so far, over all sessions.
        tokens_per_second: speed of the block.
        metrics: further numbers to show.
        kernel: returns the kernel with its current EMA weights.
        work_done: fraction of the work that is done, if steps differ in cost.
        stage: what the block trained, such as ``teacher`` or ``student``.
    """

    name: str
    iteration: int
    iterations: int
    loss: float | None
    seconds: float
    tokens_per_second: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    kernel: "Callable[[], Kernel] | None" = None
    work_done: float | None = None
    stage: str = ""

    @property
    def fraction(self) -> float:
        """The fraction of the work that is done."""
        return self.iteration / self.iterations if self.work_done is None else self.work_done

    def __str__(self) -> str:
        """Numbers only, such as ``120 of 400 steps  loss 1.234  9,000 tokens/s``."""
        if self.loss is None:
            return "generating teacher pairs"
        loss = f"{self.stage} loss {self.loss:.3f}".strip()
        parts = [f"{self.iteration:,} of {self.iterations:,} steps", loss]
        parts += [f"{name.replace('_', ' ')} {v:.1e}" for name, v in list(self.metrics.items())[:1]]
        if self.tokens_per_second:
            parts.append(f"{self.tokens_per_second:,.0f} tokens/s")
        return "  ".join(parts)


OnProgress = Callable[[ProgressEvent], None]


def print_line(console: "Console", line: str) -> None:
    """Print a line without markup, colours and line breaks."""
    console.print(printable(line), highlight=False, markup=False, soft_wrap=True)


def say(line: str) -> None:
    """Print a line to standard error, if that is possible.

    Without standard error, print would use standard output.
    """
    if sys.stderr is not None:
        with suppress(OSError):
            print(printable(line), file=sys.stderr)


class ProgressPrinter:
    """One live bar per name on a terminal; elsewhere a line at every tenth of the work."""

    def __init__(self, console: "Console", bars: "Progress") -> None:
        self.console, self.bars = console, bars
        self.tasks: dict[str, TaskID] = {}
        self.tenths: dict[str, int] = {}

    def start(self, name: str, fraction: float, text: str) -> None:
        """Show a bar before its first event, at the fraction that earlier sessions have done."""
        # Passed at creation, so that rich does not count earlier work as speed.
        done = int(TOTAL * fraction)
        self.tasks[name] = self.bars.add_task(
            printable(name), total=TOTAL, completed=done, numbers=text
        )
        self.tenths[name] = int(10 * fraction)

    def __call__(self, event: ProgressEvent) -> None:
        if event.name not in self.tasks:
            self.start(event.name, 0.0, "")
        task, tenth = self.tasks[event.name], int(10 * event.fraction + 1e-9)
        self.bars.update(task, completed=TOTAL * event.fraction, numbers=str(event))
        if not self.console.is_terminal and tenth > self.tenths[event.name]:
            self.tenths[event.name] = tenth
            print_line(self.console, f"{event.name}: {tenth}0 %  {event}  {event.seconds:.0f} s")


@contextmanager
def progress_printer(console: "Console") -> Iterator[ProgressPrinter]:
    """Yield a printer that shows the events it is called with."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[numbers]}", markup=False),
        TimeRemainingColumn(),
    )
    live = console.is_terminal
    with Progress(*columns, console=console, refresh_per_second=2, disable=not live) as bars:
        yield ProgressPrinter(console, bars)


@contextmanager
def shown_progress(
    name: str, fraction: float, on_progress: OnProgress | None
) -> Iterator[OnProgress]:
    """Yield ``on_progress``; if it is None, what a person sees.

    That is a bar on standard error if this is a terminal, lines in a notebook, and nothing
    elsewhere. ``fraction`` is the work that earlier sessions have done.
    """
    if on_progress is not None:
        yield on_progress
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield lambda event: None
        return
    with progress_printer(Console(stderr=True, force_jupyter=False)) as printer:
        printer.start(name, fraction, "preparing, up to a minute")
        yield printer
