"""The samples of a run that are judged. They can be kept in its folder: where there is a GPU to
draw them may not be where there are the packages that judge."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy
import torch
from safetensors import SafetensorError, safe_open

from discrete_meanflow.data.codec import Codec
from discrete_meanflow.data.kind import Kind, Windows
from discrete_meanflow.errors import InputError
from discrete_meanflow.files import digest
from discrete_meanflow.metric.reference_lm import MIN_STEPS, ReferenceLM
from discrete_meanflow.model import run_folder as run
from discrete_meanflow.model.one_step_model import OneStepModel
from discrete_meanflow.model.prepare import FEWEST_JUDGED
from discrete_meanflow.types import State

Json = dict[str, Any]
STEPS = (1, 2, 4, 8, 16)
FEWEST_READ = 1000  # records that a reader can learn from
MOST_BITS = 1e3  # per symbol
MISREAD = (ValueError, TypeError, KeyError, OverflowError, RecursionError)
HELD_OUT, SAMPLES = "held out", "samples"


@dataclass(frozen=True)
class EvaluateOptions:
    """``n`` records at each number of steps; ``reading`` steps train a reader, which tells bits
    per symbol, on held-out records that are compared with nothing."""

    n: int = 2000
    seed: int = 0
    steps: tuple[int, ...] = STEPS
    reading: int = 0

    def __post_init__(self) -> None:
        if self.n < 4:
            raise InputError(f"evaluate: at least 4 records, got {self.n}")
        if not self.steps or min(self.steps) < 1 or len(set(self.steps)) < len(self.steps):
            given = " ".join(map(str, self.steps)) or "none"
            raise InputError(f"evaluate: numbers of steps from 1, each once, got {given}")
        if self.reading and self.reading < MIN_STEPS:
            raise InputError(f"a reader needs at least {MIN_STEPS} steps, got {self.reading}")

    @property
    def options(self) -> str:
        """As they are given to a command."""
        steps = " ".join(map(str, self.steps))
        reading = f" --reading {self.reading}" * bool(self.reading)
        return f"-n {self.n} --seed {self.seed} --steps {steps}{reading}"


@dataclass(frozen=True)
class EvalSplit:
    """What is held out: records to compare with, as many in the place of samples, and the rest."""

    reference: State
    fresh: State
    rest: State

    @classmethod
    def of(cls, folder: Path, codec: Codec, n: int) -> "EvalSplit":
        held_out = run.read_tokens(folder, run.HELD_OUT, codec)
        if len(held_out) < FEWEST_JUDGED:
            few = f"{len(held_out)} held-out records are too few; at least {FEWEST_JUDGED}"
            raise InputError(f"evaluate: {few}")
        count = min(n, len(held_out) // 2)
        # Of a text they come in its order, and what is written side by side is alike.
        order = numpy.random.default_rng(0).permutation(2 * count)
        reference, fresh = held_out[torch.from_numpy(order)].split(count)
        return cls(reference, fresh, held_out[2 * count :])


@dataclass(frozen=True)
class Drawn:
    """Samples at each number of steps, what a reader makes of them, and where they were drawn."""

    asked: EvaluateOptions
    samples: dict[int, State]
    bits: dict[str, float]  # of the held-out records, too; of none without a reader
    environment: Json

    def judged(self, compared: EvalSplit) -> dict[str, State]:
        """All that is scored, by name."""
        return {HELD_OUT: compared.fresh} | {in_words(k): x for k, x in self.samples.items()}


def compare(folder: Path, asked: EvaluateOptions) -> tuple[EvalSplit, State | None]:
    """What samples are compared with, and what a reader learns from; refused where it is too few.

    A run need not be trained to be asked.
    """
    config = run.read_config(folder)
    compared = EvalSplit.of(folder, config.codec, asked.n)
    if not asked.reading:
        return compared, None
    return compared, _to_read(compared.rest[:, : config.codec.bare.length], config.kind)


def draw(model: OneStepModel, asked: EvaluateOptions) -> Drawn:
    codec = model.config.codec
    compared, rest = compare(model.folder, asked)
    length = codec.bare.length  # without the class
    samples = {
        k: torch.cat(list(model.tokens(len(compared.fresh), k, seed=asked.seed)))
        for k in asked.steps
    }
    drawn = Drawn(asked, samples, {}, run.environment())
    if rest is None:
        return drawn
    device = str(model.kernel.home.device)
    reader = ReferenceLM.fit(rest, codec.bare.vocabulary, device, asked.reading)
    bits = {who: reader.bits(x[:, :length]) for who, x in drawn.judged(compared).items()}
    return replace(drawn, bits=bits)


def in_words(steps: int) -> str:
    return f"{steps} step{'s' * (steps > 1)}"


def _to_read(rest: State, kind: Kind) -> State:
    """Records that a reader learns from; of a text, windows that begin anywhere."""
    if len(rest) < FEWEST_READ:
        raise InputError(
            f"a reader needs {FEWEST_READ} held-out records beside those that are compared, and "
            f"{len(rest)} are left: a smaller -n, or dmf train with a larger --held-out"
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


def find(folder: Path, asked: EvaluateOptions) -> Drawn | None:
    """The samples that are kept in the folder, if they are these, by the weights that are there.

    Where the weights are missing, they were left where the samples were drawn.
    """
    path, weights = folder / f"{SAMPLES}.safetensors", _weights(folder)
    if not path.is_file():
        return None
    codec = run.read_config(folder).codec
    try:
        with safe_open(path, framework="pt") as file:
            about = {name: json.loads(value) for name, value in (file.metadata() or {}).items()}
        kept = EvaluateOptions(**(about["asked"] | {"steps": tuple(about["asked"]["steps"])}))
        who = [HELD_OUT, *map(in_words, kept.steps)] if kept.reading else []
        bits = {name: float(about["bits"][name]) for name in who}
        environment = {name: about["environment"][name] for name in run.environment()}
        _check(bits, environment)
        by = about["weights"]
    except (SafetensorError, OSError, *MISREAD) as error:
        raise InputError(f"{path} is damaged; delete it ({error})") from None
    elsewhere = environment["gpu"] != run.environment()["gpu"]
    if kept != asked and (weights is None or elsewhere):
        where = f", drawn on {environment['gpu'] or environment['machine']}" * elsewhere
        raise InputError(
            f"{path} holds other samples{where}: dmf evaluate {folder} {kept.options}"
            + "; or delete it, to draw here" * (weights is not None)
        )
    if kept != asked or weights not in (None, by):
        return None
    samples = run.read_tensors(path, {str(k) for k in asked.steps})
    count = len(EvalSplit.of(folder, codec, asked.n).fresh)
    for each in samples.values():
        run.check_tokens(path, each, codec)
        if len(each) != count:
            raise InputError(f"{path} is damaged; delete it ({len(each)} samples, not {count})")
    return Drawn(asked, {k: samples[str(k)] for k in asked.steps}, bits, environment)


def _check(bits: dict[str, float], environment: Json) -> None:
    """What comes from a file is written again, and drawn."""
    if not all(0 <= value <= MOST_BITS for value in bits.values()):
        raise ValueError(f"bits of {bits}")
    for value in environment.values():
        if value is not None:
            str.encode(value)


def _weights(folder: Path) -> str | None:
    path = folder / run.WEIGHTS
    return digest(path) if path.is_file() else None
