"""Scores of the samples of ``distribution_matching.py``."""

from pathlib import Path
from typing import Any

import numpy
import torch
from safetensors.torch import load_file

from discrete_meanflow.io.codec import Codec
from discrete_meanflow.io.kind import Kind
from discrete_meanflow.io.subword_codec import SubwordCodec
from discrete_meanflow.io.text_codec import TextCodec
from discrete_meanflow.metric import two_samples
from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.types import State
from measure import record

Scores = dict[str, float]


def scores(kind: Kind, codec: Codec, x: State, train: State, reference: State) -> Scores:
    """Scores of records against held-out records and the training set, as in ``dmf evaluate``."""
    codec = codec.bare  # without the class
    x, train, reference = (part[:, : codec.length] for part in (x, train, reference))
    if isinstance(codec, TextCodec | SubwordCodec):
        tv = two_samples.ngram_tv(x, reference, codec.vocabulary, 2, codec.pad)
    else:
        tv = two_samples.column_pair_tv(x, reference, codec.vocabulary)
    values = {
        "pair TV": tv,
        "C2ST AUC": two_samples.c2st_auc(reference, x),
        "unique": len(torch.unique(x, dim=0)) / len(x),
        "copies": two_samples.copies(x, train),
    }
    if (valid := kind.valid(codec.decode(x))) is not None:
        values["valid"] = sum(valid) / len(valid)
    return values


def write_record(
    file: Path,
    folder: Path,
    facts: dict[str, Any],
    data: tuple[Config, State, State],
    out: Path,
) -> None:
    """Score all samples of a folder and write ``distribution-matching-NAME.json``."""
    config, train, held_out = data
    n = facts["samples"]
    order = numpy.random.default_rng(0).permutation(2 * n)
    reference, real = held_out[torch.from_numpy(order)].split(n)

    def scored(x: State) -> Scores:
        return scores(config.kind, config.codec, x, train, reference)

    kernels = facts.pop("kernels")
    for name, kernel in kernels.items():
        tokens = load_file(folder / f"{name}.safetensors")
        samplers = sorted(tokens, key=lambda title: (title.split()[0], int(title.split()[1])))
        kernel["scores"] = {sampler: scored(tokens[sampler]) for sampler in samplers}
        print(name, kernel["scores"], flush=True)
    numbers = {"kind": config.kind.name, **facts, "held out": scored(real), "kernels": kernels}
    name = f"distribution-matching-{file.name.split('.')[0]}"
    record(name, "cpu", facts["command"], numbers, out)
