"""A training that survives being stopped."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from discrete_meanflow.errors import Interrupted
from discrete_meanflow.files import write_atomically
from discrete_meanflow.training import checkpoint
from discrete_meanflow.training.trainer import BlockRecord, Trainer

SAVE_EVERY = 20.0  # seconds between checkpoints


def train_resumable(
    trainer: Trainer,
    saved: Path,
    settings: dict[str, Any],
    history: Any,
    on_block: Callable[[BlockRecord, Any], None],
    stopped: Callable[[], bool],
) -> Any:
    """Train to the end, from the checkpoint ``saved`` if there is one; returns the history.

    ``on_block(record, history)`` may add to the history, which is saved along. When asked to
    stop, all is saved first. A state is written once the block after it has gone well: what a
    training that comes apart leaves behind is from before. Of several processes the first writes,
    and all stop together.
    """
    processes = trainer.processes
    if saved.exists():
        history = checkpoint.load(saved, trainer, settings)
    last, waiting = time.monotonic(), None
    for record in trainer.blocks():
        on_block(record, history)
        if waiting is not None:
            write_atomically(saved, waiting)
            waiting = None
        ended = record.iteration == trainer.recipe.iterations
        stop = processes.any(stopped())
        if processes.first and (ended or stop):
            checkpoint.save(saved, trainer, settings, history)
        elif processes.first and time.monotonic() - last > SAVE_EVERY:
            last, waiting = time.monotonic(), checkpoint.state(trainer, settings, history)
        if stop and not ended:
            raise Interrupted
    return history
