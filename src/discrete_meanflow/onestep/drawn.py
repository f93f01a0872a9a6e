"""The samples of a run that are judged. They can be kept in its folder: where there is a GPU to
draw them may not be where there are the packages that judge."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from discrete_meanflow.data.codec import Codec
from discrete_meanflow.data.kind import Kind, Windows
from discrete_meanflow.errors import InputError
from discrete_meanflow.metric.text import Reader
from discrete_meanflow.onestep import folder as run
from discrete_meanflow.onestep.model import OneStepModel
from discrete_meanflow.types import State

Json = dict[str, Any]
STEPS = (1, 2, 4, 8, 16)
FEWEST_READ = 1000  # records that a reader can learn from
HELD_OUT, SAMPLES = "held out", "samples"


@dataclass(frozen=True)
class Asked:
    """``n`` records at each number of steps; ``reading`` steps train a reader, which tells bits
    per symbol, on held-out records that are compared with nothing."""

    n: int = 2000
    seed: int = 0
    steps: tuple[int, ...] = STEPS
    reading: int = 0


@dataclass(frozen=True)
class Compared:
    """What is held out: records to compare with, as many in the place of samples, and the rest."""

    reference: State
    fresh: State
    rest: State

    @classmethod
    def of(cls, folder: Path, codec: Codec, n: int) -> "Compared":
        if n < 4:
            raise InputError(f"evaluate: at least 4 records, got {n}")
        held_out = run.read_tokens(folder, run.HELD_OUT, codec)
        if len(held_out) < 8:
            raise InputError(f"evaluate: {len(held_out)} held-out records are too few; at least 8")
        count = min(n, len(held_out) // 2)
        return cls(held_out[:count], held_out[count : 2 * count], held_out[2 * count :])


@dataclass(frozen=True)
class Drawn:
    """Samples at each number of steps, what a reader makes of them, and where they were drawn."""

    asked: Asked
    samples: dict[int, State]
    bits: dict[str, float]  # of the held-out records, too; of none without a reader
    environment: Json


def draw(model: OneStepModel, asked: Asked) -> Drawn:
    codec, kind = model.config.codec, model.config.kind
    compared = Compared.of(model.folder, codec, asked.n)
    count = len(compared.fresh)
    samples = {k: torch.cat(list(model.tokens(count, k, seed=asked.seed))) for k in asked.steps}
    bits = {}
    if asked.reading:
        length = codec.bare.length  # without the class
        rest = _to_read(compared.rest[:, :length], kind)
        device = str(model.kernel.home.device)
        reader = Reader.trained(rest, codec.bare.vocabulary, device, asked.reading)
        read = (compared.fresh, *samples.values())
        bits = {
            who: reader.bits(x[:, :length]) for who, x in zip(_read_by(asked), read, strict=True)
        }
    return Drawn(asked, samples, bits, run.environment())


def _read_by(asked: Asked) -> list[str]:
    """Whose bits a reader tells, if there is one."""
    return [HELD_OUT, *map(in_words, asked.steps)] if asked.reading else []


def in_words(steps: int) -> str:
    return f"{steps} step{'s' * (steps > 1)}"


def _to_read(rest: State, kind: Kind) -> State:
    """Records that a reader learns from; of a text, windows that begin anywhere."""
    if len(rest) < FEWEST_READ:
        raise InputError(
            f"a reader needs {FEWEST_READ} held-out records beside those that are compared, and "
            f"{len(rest)} are left: dmf train with a larger --held-out, or a smaller -n"
        )
    return rest.flatten().unfold(0, rest.shape[1], 1) if isinstance(kind, Windows) else rest


def keep(folder: Path, drawn: Drawn) -> None:
    """Write the samples into the folder of their run."""
    about = {
        "asked": asdict(drawn.asked),
        "bits": drawn.bits,
        "environment": drawn.environment,
        "weights": _weights(folder),
    }
    tokens = {str(k): x for k, x in drawn.samples.items()}
    words = {name: json.dumps(value) for name, value in about.items()}
    vocabulary = run.read_config(folder).codec.vocabulary
    run.write_tokens(folder / f"{SAMPLES}.safetensors", tokens, vocabulary, words)


def find(folder: Path, asked: Asked) -> Drawn | None:
    """The samples that are kept in the folder, if they are these, by the weights that are there.

    Where the weights are missing, they were left where the samples were drawn.
    """
    path = folder / f"{SAMPLES}.safetensors"
    if not path.exists():
        return None
    codec = run.read_config(folder).codec
    try:
        with safe_open(path, framework="pt") as file:
            about = {name: json.loads(value) for name, value in (file.metadata() or {}).items()}
        same = about["asked"] == {**asdict(asked), "steps": list(asked.steps)}
        if not same or _weights(folder) not in (None, about["weights"]):
            return None
        bits = {who: float(about["bits"][who]) for who in _read_by(asked)}
        environment = dict(about["environment"])
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{path} is damaged; delete it ({error})") from None
    samples = run.read_tensors(path, {str(k) for k in asked.steps})
    count = len(Compared.of(folder, codec, asked.n).fresh)
    for each in samples.values():
        run.check_tokens(path, each, codec)
        if len(each) != count:
            raise InputError(f"{path} is damaged; delete it ({len(each)} samples, not {count})")
    return Drawn(asked, {k: samples[str(k)] for k in asked.steps}, bits, environment)


def _weights(folder: Path) -> str | None:
    path = folder / "weights.safetensors"
    if not path.exists():
        return None
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
