"""The whole state of a training run in one safetensors file: never a pickle."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialise
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.files import write_atomically
from discrete_meanflow.training.trainer import Trainer

FORMAT = "discrete-meanflow training state 1"


def state(trainer: Trainer, settings: dict[str, Any], history: Any) -> bytes:
    """All state of the loop, with the settings it belongs to and the history so far."""
    note = {
        "format": FORMAT,
        "settings": settings,
        "device": trainer.device.type,
        "states": trainer.stack.states,
        "iteration": trainer.iteration,
        "seconds": trainer.seconds,
        "history": history,
    }
    tensors = {name: tensor.contiguous() for name, tensor in _tensors(trainer).items()}
    return serialise(tensors, {"note": json.dumps(note)})


def save(path: Path, trainer: Trainer, settings: dict[str, Any], history: Any) -> None:
    """Write all state of the loop to a file, whole or not at all."""
    write_atomically(path, state(trainer, settings, history))


def load(path: Path, trainer: Trainer, settings: dict[str, Any]) -> Any:
    """Put the state in ``path`` into a fresh trainer and return the history."""
    if not path.is_file():
        raise InputError(f"checkpoint {path} is no file; delete it")
    try:
        with safe_open(path, framework="pt") as file:
            note = json.loads((file.metadata() or {}).get("note", "{}"))
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise InputError(f"checkpoint {path} is damaged or foreign ({error}); delete it") from None
    if not isinstance(note, dict) or note.get("format") != FORMAT:
        raise InputError(f"checkpoint {path} was not written by this version; delete it")
    iterations = trainer.recipe.iterations
    if not isinstance(note.get("iteration"), int) or not 0 <= note["iteration"] <= iterations:
        raise InputError(f"checkpoint {path} is damaged: no step from 0 to {iterations}; delete it")
    if not isinstance(note.get("seconds"), int | float) or "history" not in note:
        raise InputError(f"checkpoint {path} is damaged: no time, no history; delete it")
    if note.get("settings") != settings:
        raise InputError(f"checkpoint {path} belongs to other settings; choose another folder")
    states = trainer.stack.states
    if note.get("states", states) != states:  # older ones say nothing of it
        raise InputError(f"checkpoint {path} is of {note['states']} states, this is for {states}")
    device = trainer.device.type
    if note.get("device", device) != device:  # nor of this
        raise InputError(
            f"checkpoint {path} was made on {note['device']}, whose random numbers {device} "
            f"does not have: go on with it on {note['device']}"
        )
    _materialise(trainer)
    for name, tensor in _tensors(trainer).items():
        if (
            name not in found
            or found[name].shape != tensor.shape
            or (found[name].dtype != tensor.dtype)
        ):
            raise InputError(f"checkpoint {path} lacks {name} of shape {tuple(tensor.shape)}")
    with torch.no_grad():
        for name, tensor in _tensors(trainer).items():
            if not name.startswith("generator/"):
                tensor.copy_(found[name])
    for seed, g in zip(trainer.seeds, trainer.generators, strict=True):
        try:
            g.set_state(found[f"generator/{seed}"])
        except RuntimeError as error:
            raise InputError(f"checkpoint {path} is damaged ({error}); delete it") from None
    trainer.iteration, trainer.seconds = note["iteration"], note["seconds"]
    return note["history"]


def iteration_in(path: Path) -> int:
    """The step a checkpoint was written at; 0 if there is none that can be read."""
    if not path.is_file():  # a pipe would be waited for
        return 0
    try:
        with safe_open(path, framework="pt") as file:
            return int(json.loads((file.metadata() or {})["note"])["iteration"])
    except (
        *(SafetensorError, OSError, ValueError, KeyError, TypeError),
        *(OverflowError, RecursionError),
    ):
        return 0


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
    """Make the optimiser's slots, which AdamW creates in its first step."""
    for p in trainer.parameters.values():
        p.grad = torch.zeros_like(p)
    kept = {name: p.clone() for name, p in trainer.parameters.items()}
    trainer.optimiser.step()
    with torch.no_grad():
        for name, p in trainer.parameters.items():
            p.copy_(kept[name])
