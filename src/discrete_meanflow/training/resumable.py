"""Training that survives interruptions."""

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
    """Train to the end, from the checkpoint ``saved`` if it exists; return the history.

    ``on_block(record, history)`` may add to the history, which the checkpoint contains. A request
    to stop saves first. A state is written only after the next block succeeded, so a training that
    diverges leaves a checkpoint from before. The first rank writes; all ranks stop together.
    """
    distributed = trainer.distributed
    if saved.exists():
        history = checkpoint.load(saved, trainer, settings)
    last, waiting = time.monotonic(), None
    for record in trainer.blocks():
        on_block(record, history)
        if waiting is not None:
            write_atomically(saved, waiting)
            waiting = None
        ended = record.iteration == trainer.recipe.iterations
        stop = distributed.any(stopped())
        if distributed.first and (ended or stop):
            checkpoint.save(saved, trainer, settings, history)
        elif distributed.first and time.monotonic() - last > SAVE_EVERY:
            last, waiting = time.monotonic(), checkpoint.state(trainer, settings, history)
        if stop and not ended:
            raise Interrupted
    return history
