"""The log of a training: metrics.jsonl, and TensorBoard if it is installed."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from discrete_meanflow.errors import InputError
from discrete_meanflow.files import read_regular_file, write_atomically
from discrete_meanflow.model.run_folder import METRICS, TENSORBOARD
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.run.progress import ProgressEvent


class MetricsLog:
    """Appends one line per block.

    After a crash the log may be ahead of the checkpoint. Lines after ``iteration`` are dropped
    when the first new line is written.
    """

    def __init__(self, folder: Path, iteration: int) -> None:
        if not os.access(folder, os.W_OK):
            raise InputError(f"cannot write to {folder}")
        self.path = folder / METRICS
        try:
            lines = [line for line in read_metrics(self.path) if line["iteration"] <= iteration]
            self.earlier: str | None = "".join(json.dumps(line) + "\n" for line in lines)
            self.board = _tensorboard(folder / TENSORBOARD, iteration + 1)
        except OSError as error:
            raise InputError(f"cannot log to {folder}: {error}") from None

    def add(self, event: ProgressEvent) -> None:
        values = {
            "loss": event.loss,
            "seconds": event.seconds,
            "tokens_per_second": event.tokens_per_second,
        }
        if self.earlier is not None:
            write_atomically(self.path, self.earlier.encode())
            self.earlier = None
        try:
            with open(self.path, "a") as file:
                file.write(json.dumps({"iteration": event.iteration, **values}) + "\n")
            if self.board is not None:
                for name, value in values.items():
                    self.board.add_scalar(name, value, event.iteration)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(
                f"cannot write to {self.path.parent}: {reason}; earlier checkpoints are intact"
            ) from None

    def close(self) -> None:
        """Stop TensorBoard's writer thread, which must not outlive the folder."""
        with contextlib.suppress(OSError):  # metrics.jsonl has the same numbers
            if self.board is not None:
                self.board.close()


def read_metrics(path: Path) -> list[Json]:
    """The valid lines of a log; none if there is no log."""
    text = read_regular_file(path).decode(errors="replace") if os.path.lexists(path) else ""
    lines = []
    for line in text.splitlines():
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            continue  # cut short by a crash
        if isinstance(content, dict) and isinstance(content.get("iteration"), int):
            lines.append(content)
    return lines


def _tensorboard(folder: Path, step: int) -> Any:
    """TensorBoard's writer, starting at ``step``; None if it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None  # metrics.jsonl is complete
    if folder.is_symlink():
        raise InputError(f"{folder} is a link, which could lead anywhere; remove it")
    return SummaryWriter(str(folder), purge_step=step)
