"""The state of a training in one safetensors file, never a pickle."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialise
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.files import write_atomically
from discrete_meanflow.training.trainer import Trainer

FORMAT = "discrete-meanflow training state 2"
MOST_SECONDS = 1e10  # 300 years; more is damage


def state(trainer: Trainer, settings: dict[str, Any], history: Any) -> bytes:
    """The state of the loop with its settings and history, serialised."""
    note = {
        "format": FORMAT,
        "settings": settings,
        "device": trainer.device.type,
        "space": str(trainer.stack.space),
        "iteration": trainer.iteration,
        "revision": trainer.revision,
        "seconds": trainer.seconds,
        "history": history,
    }
    tensors = {name: tensor.contiguous() for name, tensor in _tensors(trainer).items()}
    return serialise(tensors, {"note": json.dumps(note)})


def save(path: Path, trainer: Trainer, settings: dict[str, Any], history: Any) -> None:
    """Write the state of the loop to a file atomically."""
    write_atomically(path, state(trainer, settings, history))


def load(path: Path, trainer: Trainer, settings: dict[str, Any]) -> Any:
    """Restore the state in ``path`` into a new trainer and return the history."""
    note, tensors = _read(path)
    _check_note(path, note, trainer, settings)
    _materialise(trainer)
    for name, tensor in _tensors(trainer).items():
        stored = tensors.get(name)
        if stored is None or (stored.shape, stored.dtype) != (tensor.shape, tensor.dtype):
            raise InputError(f"checkpoint {path} lacks {name} of shape {tuple(tensor.shape)}")
    with torch.no_grad():
        for name, tensor in _tensors(trainer).items():
            if not name.startswith("generator/"):
                tensor.copy_(tensors[name])
    for seed, g in zip(trainer.seeds, trainer.generators, strict=True):
        try:
            g.set_state(tensors[f"generator/{seed}"])
        except RuntimeError as error:
            raise InputError(f"checkpoint {path} is damaged ({error}); delete it") from None
    trainer.iteration, trainer.seconds = note["iteration"], note["seconds"]
    trainer.revision = note.get("revision")
    return note["history"]


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not path.is_file():
        raise InputError(f"checkpoint {path} is not a file; delete it")
    try:
        with safe_open(path, framework="pt") as file:
            note = json.loads((file.metadata() or {}).get("note", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise InputError(f"checkpoint {path} is damaged or foreign ({error}); delete it") from None
    if not isinstance(note, dict) or note.get("format") != FORMAT:
        raise InputError(f"checkpoint {path} was written by another version; delete it")
    return note, tensors


def _check_note(
    path: Path, note: dict[str, Any], trainer: Trainer, settings: dict[str, Any]
) -> None:
    """Raise an error unless the checkpoint belongs to this training."""
    iterations, device = _iterations(note) or trainer.recipe.iterations, trainer.device.type
    if not isinstance(note.get("iteration"), int) or not 0 <= note["iteration"] <= iterations:
        raise InputError(
            f"checkpoint {path} is damaged: its step is not in 0 .. {iterations}; delete it"
        )
    seconds = note.get("seconds")
    if not isinstance(seconds, int | float) or not 0 <= seconds <= MOST_SECONDS:
        raise InputError(f"checkpoint {path} is damaged: its time is {seconds!r}; delete it")
    if "history" not in note:
        raise InputError(f"checkpoint {path} is damaged: no history; delete it")
    if note.get("settings") != settings:
        raise InputError(f"checkpoint {path} belongs to other settings; choose another folder")
    space = str(trainer.stack.space)
    if note.get("space") != space:
        raise InputError(f"checkpoint {path} has {note.get('space')}, this training {space}")
    if note.get("device") != device:
        raise InputError(
            f"checkpoint {path} was made on {note.get('device')}; its random numbers do not exist "
            f"on {device}: resume on {note.get('device')}"
        )


def iteration_in(path: Path) -> int:
    """The step of a checkpoint; 0 if there is none or it cannot be read."""
    return int(_number(path, lambda note: note["iteration"]))


def seconds_in(path: Path) -> float:
    """The training time in a checkpoint; 0 if there is none or it cannot be read."""
    return float(_number(path, lambda note: note["seconds"]))


def iterations_in(path: Path) -> int:
    """The number of steps to which a training was revised; 0 if it was not."""
    return int(_number(path, _iterations))


def _number(path: Path, number: Callable[[dict[str, Any]], float]) -> float:
    """A number in the note of a checkpoint; 0 if it cannot be read."""
    if not path.is_file():  # opening a pipe would block
        return 0
    try:
        with safe_open(path, framework="pt") as file:
            found = float(number(json.loads((file.metadata() or {})["note"])))
            return found if math.isfinite(found) else 0
    except (
        *(SafetensorError, OSError, ValueError, KeyError, TypeError),
        *(OverflowError, RecursionError, InputError),
    ):
        return 0


def _iterations(note: dict[str, Any]) -> int:
    """The number of steps to which a training was revised; 0 if it was not."""
    revision = note.get("revision")
    if revision is None:
        return 0
    try:
        iterations, step, place = revision
        if 0 < int(step) < int(iterations) and 0 <= float(place) <= iterations:
            return int(iterations)
    except (TypeError, ValueError):
        pass
    raise InputError(
        f"a checkpoint is damaged: its steps were revised to {revision!r:.40}; delete it"
    )


def _tensors(trainer: Trainer) -> dict[str, Tensor]:
    tensors = {f"parameter/{name}": p for name, p in trainer.parameters.items()}
    tensors |= {f"ema/{name}": p for name, p in trainer.ema.items()}
    for name, p in trainer.parameters.items():
        for slot, value in trainer.optimiser.state[p].items():
            tensors[f"optimiser/{slot}/{name}"] = value
    for seed, g in zip(trainer.seeds, trainer.generators, strict=True):
        tensors[f"generator/{seed}"] = g.get_state()
    return tensors


def _materialise(trainer: Trainer) -> None:
    """Create the optimiser's state, as its first step does."""
    for p in trainer.parameters.values():
        p.grad = torch.zeros_like(p)
    kept = {name: p.clone() for name, p in trainer.parameters.items()}
    trainer.optimiser.step()
    with torch.no_grad():
        for name, p in trainer.parameters.items():
            p.copy_(kept[name])
