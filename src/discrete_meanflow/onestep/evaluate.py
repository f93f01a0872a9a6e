"""Judge a run by the records it has not seen, with their own sampling noise as the floor."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch

from discrete_meanflow.data.codec import Columns, Strings
from discrete_meanflow.data.kind import Windows
from discrete_meanflow.data.pieces import Pieces
from discrete_meanflow.errors import InputError
from discrete_meanflow.metric import text, two_samples
from discrete_meanflow.metric.text import Reader
from discrete_meanflow.onestep import folder as run
from discrete_meanflow.onestep.model import OneStepModel
from discrete_meanflow.types import State

Json = dict[str, Any]
STEPS = (1, 2, 4, 8, 16)
MOST_WINDOWS = 1_000_000  # of a text, whose words are known
FEWEST_READ = 1000  # records that a reader can learn from


def evaluate(
    model: OneStepModel,
    n: int = 2000,
    seed: int = 0,
    steps: Sequence[int] = STEPS,
    reading: int = 0,
) -> Json:
    """Scores at each number of steps, and those of held-out records in the place of samples.

    ``reading`` steps train a reader on the other held-out records, which tells bits per symbol.
    """
    if n < 4:
        raise InputError(f"evaluate: at least 4 records, got {n}")
    codec = model.config.codec
    train = run.read_tokens(model.folder, run.TRAIN, codec)
    held_out = run.read_tokens(model.folder, run.HELD_OUT, codec)
    if len(held_out) < 8:
        raise InputError(f"evaluate: {len(held_out)} held-out records are too few; at least 8")
    count = min(n, len(held_out) // 2)
    reference, fresh = held_out[:count], held_out[count : 2 * count]
    reader = _reader(model, held_out[2 * count :], reading) if reading else None
    judge = Judge(model, train, reference, reader)
    scores = {"held out": judge(fresh)}
    for k in steps:
        samples = torch.cat(list(model.tokens(count, k, seed=seed)))
        scores[f"{k} step{'s' * (k > 1)}"] = judge(samples)
    return {
        "records": count,
        "seed": seed,
        "reading": reading,
        "sought among": {
            "copies": min(len(train), two_samples.MOST_KNOWN),
            "nearest": two_samples.neighbours_among(fresh, train),
        },
        "environment": run.environment(),
        "scores": scores,
    }


def _reader(model: OneStepModel, rest: State, iterations: int) -> Reader:
    codec = model.config.codec.bare
    if len(rest) < FEWEST_READ:
        raise InputError(
            f"a reader needs {FEWEST_READ} held-out records beside those that are compared, and "
            f"{len(rest)} are left: dmf train with a larger --held-out, or a smaller -n"
        )
    device = str(model.kernel.home.device)
    return Reader.trained(rest[:, : codec.length], codec.vocabulary, device, iterations)


class Judge:
    """Scores of records against held-out ones and against what was trained on."""

    def __init__(
        self, model: OneStepModel, train: State, reference: State, reader: Reader | None = None
    ) -> None:
        self.reader = reader
        self.kind, self.codec = model.config.kind, model.config.codec.bare
        self.train, self.reference = (each[:, : self.codec.length] for each in (train, reference))

    def __call__(self, x: State) -> Json:
        codec = self.codec
        x = x[:, : codec.length]  # the record, without its class
        n, reference, records = codec.vocabulary, self.reference, codec.decode(x)
        if isinstance(codec, Strings | Pieces):
            pad = codec.pad
            tv = {
                "pair TV": two_samples.gram_tv(x, reference, n, 2, pad),
                "triple TV": two_samples.gram_tv(x, reference, n, 3, pad),
            }
        else:
            tv = {"pair TV": two_samples.column_pair_tv(x, reference, n)}
        found = {
            **tv,
            "unique": len(torch.unique(x, dim=0)) / len(x),
            "copies": two_samples.copies(x, self.train),
            "nearest": two_samples.nearest(x, self.train),
            "AUC": two_samples.telling_apart(self.reference, x),
        }
        if isinstance(codec, Strings):
            found["well-formed"] = _well_formed(records, codec.alphabet.pad)
        if isinstance(self.kind, Windows):
            found["known words"] = text.known_words(records, self._vocabulary)
        if self.reader is not None:
            found["bits"] = self.reader.bits(x)
            found["entropy"] = text.letter_entropy(x, n)
        if isinstance(codec, Columns):
            found["valid"] = two_samples.familiar(x, self.train, n)
        valid = self.kind.valid(records)
        if valid is not None:
            found["valid"] = sum(valid) / len(valid)
        return found

    @cached_property
    def _vocabulary(self) -> set[str]:
        """The words of what was trained on, whose windows follow each other."""
        return set("".join(self.codec.decode(self.train[:MOST_WINDOWS])).split())


def _well_formed(strings: Sequence[str], pad: str | None) -> float:
    """The share that is not empty and has nothing behind its end."""
    return sum(bool(s) and (pad is None or pad not in s) for s in strings) / len(strings)
