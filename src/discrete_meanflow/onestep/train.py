"""Train the run in a folder, from its checkpoint if there is one."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discrete_meanflow.data import TokenArray
from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.files import write_whole
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.onestep import folder as run
from discrete_meanflow.signals import stop_signals
from discrete_meanflow.training import Trainer, checkpoint

SAVE_EVERY = 20.0  # seconds between checkpoints
EXPLODED = 100.0  # times the first loss


@dataclass(frozen=True)
class News:
    """What a block of training tells."""

    iteration: int
    iterations: int
    loss: float
    seconds: float
    tokens_per_second: float
    kernel: Callable[[], Kernel]  # as it is now


def train(folder: Path, device: str, watch: Callable[[News], None]) -> None:
    """To the end, then write the weights. A run that is trained already is left as it is."""
    if (folder / "weights.safetensors").exists():
        return
    config = run.read_config(folder)
    codec, plan = config.codec, config.plan
    data = TokenArray(run.read_tokens(folder, run.TRAIN, codec), codec.vocabulary)
    trainer = Trainer(plan.problem(codec, data), plan.recipe, [plan.seed], device)
    settings, saved = config.describe(), folder / "checkpoint.safetensors"
    first: float | None = None
    if saved.exists():
        first = checkpoint.load(saved, trainer, settings)
    log, last = Log(folder, trainer.iteration), time.monotonic()
    with stop_signals() as stopped:
        for record in trainer.blocks():
            loss = record.loss[0]
            first = loss if first is None else first
            if loss > EXPLODED * first:
                raise InputError(
                    f"the loss went from {first:.3g} to {loss:.3g} at step {record.iteration}: "
                    f"training has come apart; {saved} is as it was before. Try a smaller --size"
                )
            positions = record.iteration * plan.batch * codec.length
            news = News(
                record.iteration,
                plan.iterations,
                loss,
                record.seconds,
                positions / max(record.seconds, 1e-9),
                lambda: trainer.kernels()[0],
            )
            log.add(news)
            watch(news)
            ended = record.iteration == plan.iterations
            if ended or stopped() or time.monotonic() - last > SAVE_EVERY:
                checkpoint.save(saved, trainer, settings, first)
                last = time.monotonic()
            if stopped() and not ended:
                raise Interrupted
    run.write_weights(folder, trainer.kernels()[0])


class Log:
    """metrics.jsonl, and TensorBoard where it is installed."""

    def __init__(self, folder: Path, iteration: int) -> None:
        """Go on behind ``iteration``: lines of steps that were lost are dropped."""
        self.path = folder / "metrics.jsonl"
        kept = [line for line in self._lines() if line["iteration"] <= iteration]
        write_whole(self.path, "".join(json.dumps(line) + "\n" for line in kept).encode())
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self.board = None
        else:
            self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=iteration + 1)

    def _lines(self) -> list[dict[str, Any]]:
        found = []
        for line in self.path.read_text().splitlines() if self.path.exists() else []:
            try:
                words = json.loads(line)
            except ValueError:
                continue  # cut short by a crash
            if isinstance(words, dict) and isinstance(words.get("iteration"), int):
                found.append(words)
        return found

    def add(self, news: News) -> None:
        values = {
            "loss": news.loss,
            "seconds": news.seconds,
            "tokens_per_second": news.tokens_per_second,
        }
        with open(self.path, "a") as file:
            file.write(json.dumps({"iteration": news.iteration, **values}) + "\n")
        if self.board is not None:
            for name, value in values.items():
                self.board.add_scalar(name, value, news.iteration)
