"""Judge a run by the records it has not seen, with their own sampling noise as the floor."""

from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from discrete_meanflow.data.kind import Fasta, Windows
from discrete_meanflow.data.subword_codec import SubwordCodec
from discrete_meanflow.data.table_codec import TableCodec
from discrete_meanflow.data.text_codec import TextCodec
from discrete_meanflow.data.tokens import CHUNK_ROWS
from discrete_meanflow.metric import text, two_samples
from discrete_meanflow.metric.pair_covariance import pair_covariance_correlation
from discrete_meanflow.model import run_folder as run
from discrete_meanflow.model.eval_samples import Drawn, EvalSplit, EvaluateOptions, draw
from discrete_meanflow.model.one_step_model import OneStepModel
from discrete_meanflow.types import State

Json = dict[str, Any]
MOST_WINDOWS = 1_000_000  # of a text, whose words are known


def evaluate(model: OneStepModel, asked: EvaluateOptions) -> Json:
    """Draw samples and judge them."""
    return judged(model.folder, draw(model, asked))


def judged(folder: Path, drawn: Drawn) -> Json:
    """Scores at each number of steps, and those of held-out records in the place of samples."""
    config = run.read_config(folder)
    train = run.read_tokens(folder, run.TRAIN, config.codec)
    compared = EvalSplit.of(folder, config.codec, drawn.asked.n)
    judge = Evaluator(config, train, compared.reference)
    return {
        "records": len(compared.fresh),
        "seed": drawn.asked.seed,
        "reading": drawn.asked.reading,
        "sought among": {
            "copies": min(len(train), two_samples.MAX_COPIES_SEARCHED),
            "nearest": two_samples.neighbours_among(compared.fresh, train),
        },
        "environment": drawn.environment,
        "scores": {who: judge(x, drawn.bits.get(who)) for who, x in drawn.judged(compared).items()},
    }


class Evaluator:
    """Scores of records against held-out ones and against what was trained on."""

    def __init__(self, config: run.Config, train: State, reference: State) -> None:
        self.kind, self.codec = config.kind, config.codec.bare
        self.train, self.reference = (each[:, : self.codec.length] for each in (train, reference))

    def __call__(self, x: State, bits: float | None = None) -> Json:
        """``bits`` per symbol are what a reader told."""
        codec = self.codec
        x = x[:, : codec.length]  # the record, without its class
        n, reference, records = codec.vocabulary, self.reference, codec.decode(x)
        if isinstance(codec, TextCodec | SubwordCodec):
            pad = codec.pad
            tv = {
                "pair TV": two_samples.ngram_tv(x, reference, n, 2, pad),
                "triple TV": two_samples.ngram_tv(x, reference, n, 3, pad),
            }
        else:
            tv = {"pair TV": two_samples.column_pair_tv(x, reference, n)}
        found = {
            **tv,
            "unique": len(torch.unique(x, dim=0)) / len(x),
            "copies": two_samples.copies(x, self.train),
            "nearest": two_samples.nearest(x, self.train),
            "AUC": two_samples.c2st_auc(self.reference, x),
        }
        if isinstance(codec, TextCodec | SubwordCodec):
            found["well-formed"] = _well_formed(x, codec.pad)
            if isinstance(self.kind, Fasta) and codec.pad is None:  # aligned: places mean something
                found["two sites"] = pair_covariance_correlation(x, reference, n)
        if isinstance(self.kind, Windows):
            found["known words"] = text.known_words(records, self._vocabulary)
        if bits is not None:
            found["bits"] = bits
            found["entropy"] = text.letter_entropy(x, n)
        if isinstance(codec, TableCodec):
            found["valid"] = two_samples.pairs_seen(x, self.train, n)
        valid = self.kind.valid(records)
        if valid is not None:
            found["valid"] = sum(valid) / len(valid)
        return found

    @cached_property
    def _vocabulary(self) -> set[str]:
        """The words of what was trained on, whose windows follow each other."""
        found: set[str] = set()
        for some in self.train[:MOST_WINDOWS].split(CHUNK_ROWS):
            found.update(self.codec.decode(some.reshape(1, -1))[0].split())
        return found


def _well_formed(x: State, pad: int | None) -> float:
    """The share that is not empty and has nothing behind its end."""
    if pad is None:
        return 1.0
    ended = x == pad
    goes_on = (ended[:, :-1] & ~ended[:, 1:]).any(1)
    return (~ended[:, 0] & ~goes_on).double().mean().item()
