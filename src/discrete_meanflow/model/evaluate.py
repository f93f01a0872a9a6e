"""Score samples against held-out records. The score of real data is the best reachable."""

import shlex
from functools import cached_property
from pathlib import Path

import torch

from discrete_meanflow.data.tokens import CHUNK_ROWS
from discrete_meanflow.metric import text, two_samples
from discrete_meanflow.metric.pair_covariance import pair_covariance_correlation
from discrete_meanflow.model.advice import advise
from discrete_meanflow.model.class_accuracy import score_classes
from discrete_meanflow.model.completions import score_completions
from discrete_meanflow.model.eval_samples import EvalSamples, EvalSplit
from discrete_meanflow.model.run_folder import TRAIN, Config
from discrete_meanflow.model.table_quality import score_table
from discrete_meanflow.model.tensor_files import read_tokens
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.types import State

MOST_WINDOWS = 1_000_000  # of a text, from which the known words are collected
LEGEND = {
    "pair TV": "total variation distance of adjacent symbols, or of pairs of columns, 0 to 1",
    "triple TV": "the same for three symbols in a row",
    "unique": "fraction of distinct samples",
    "copies": "fraction of samples that are training records",
    "nearest": "mean distance to the nearest training record, as a fraction of positions",
    "C2ST AUC": "AUC of a classifier two-sample test; 0.5: indistinguishable from real data",
    "well-formed": "fraction of samples that are not empty and have no symbol after their end",
    "pair covariance": "correlation of the covariances of position pairs with held-out data",
    "known words": "fraction of words that occur in the training text",
    "bits": "bits per symbol under a reference language model",
    "entropy": "entropy of the symbols of a sample, in bits",
    "valid": "fraction of valid molecules or sequences; in tables, of rows with known value pairs",
}


def evaluate(folder: Path, config: Config, samples: EvalSamples, target: str | None = None) -> Json:
    """Scores of samples at each number of steps, of held-out records and of conditional samples.

    Args:
        target: column of a table whose prediction measures utility; None chooses one.
    """
    codec, train = config.codec, read_tokens(folder / TRAIN, config.codec)
    split = EvalSplit.read(folder, codec, samples.options.n)
    evaluator = Evaluator(config, train, split.reference)
    rows = samples.rows(split)
    scores = {name: evaluator(x, samples.bits.get(name)) for name, x in rows.items()}
    completions = score_completions(codec, train, split, samples, scores)
    classes = score_classes(codec, train, split, samples)
    target_option = "" if target is None else f" --target {shlex.quote(target)}"
    return {
        "records": len(split.real),
        "seed": samples.options.seed,
        "lm_steps": samples.options.lm_steps,
        "options": samples.options.command_line + target_option,
        "training records compared": {
            "copies": min(len(train), two_samples.MAX_COPIES_SEARCHED),
            "nearest": two_samples.neighbours_among(split.real, train),
        },
        "environment": samples.environment,
        "likelihood": samples.likelihood,
        "scores": scores,
        "quality": score_table(config, train, split, samples, scores, target),
        "completions": completions,
        "classes": classes,
        "advice": advise(completions, classes, len(split.real)),
    }


class Evaluator:
    """Scores records against held-out records and the training set."""

    def __init__(self, config: Config, train: State, reference: State) -> None:
        self.kind, self.codec = config.kind, config.codec.bare
        length = self.codec.length  # without the class
        self.train, self.reference = train[:, :length], reference[:, :length]
        self.compared = self.codec.main_positions

    def __call__(self, x: State, bits: float | None = None) -> Json:
        """Score records ``x``; ``bits`` per symbol come from a reference LM."""
        codec, reference = self.codec, self.reference
        x = x[:, : codec.length]
        records = codec.decode(x)
        scores = {
            **self._distances(x),
            "unique": len(torch.unique(x, dim=0)) / len(x),
            "copies": two_samples.copies(x, self.train),
            "nearest": two_samples.nearest(x, self.train),
            "C2ST AUC": two_samples.c2st_auc(reference, x),
        }
        if codec.sequential:
            scores["well-formed"] = _well_formed(x, codec.pad)
        if self.kind.aligned and codec.pad is None:
            scores["pair covariance"] = pair_covariance_correlation(x, reference, codec.vocabulary)
        if self.kind.one_text:
            scores["known words"] = text.known_words(records, self._words)
        if bits is not None:
            scores["bits"] = bits
            scores["entropy"] = text.letter_entropy(x, codec.vocabulary)
        if self.kind.known_pairs:
            rows, known = x[:, self.compared], self.train[:, self.compared]
            scores["valid"] = two_samples.pairs_seen(rows, known, codec.vocabulary)
        if (valid := self.kind.valid(records)) is not None:
            scores["valid"] = sum(valid) / len(valid)
        return scores

    def _distances(self, x: State) -> Json:
        codec, reference, n = self.codec, self.reference, self.codec.vocabulary
        if not codec.sequential:
            rows, real = x[:, self.compared], reference[:, self.compared]
            return {"pair TV": two_samples.column_pair_tv(rows, real, n)}
        return {
            "pair TV": two_samples.ngram_tv(x, reference, n, 2, codec.pad),
            "triple TV": two_samples.ngram_tv(x, reference, n, 3, codec.pad),
        }

    @cached_property
    def _words(self) -> set[str]:
        """The words of the training text, whose windows follow each other."""
        words: set[str] = set()
        for rows in self.train[:MOST_WINDOWS].split(CHUNK_ROWS):
            words.update(self.codec.decode(rows.reshape(1, -1))[0].split())
        return words


def _well_formed(x: State, pad: int | None) -> float:
    """The fraction of records that are not empty and have no symbol after their end."""
    if pad is None:
        return 1.0
    ended = x == pad
    continues = (ended[:, :-1] & ~ended[:, 1:]).any(1)
    return (~ended[:, 0] & ~continues).double().mean().item()
