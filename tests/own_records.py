"""Small records of every kind, and runs on them."""

import gzip
import json
import sys

import numpy
import pytest

from discrete_meanflow import OneStepModel
from discrete_meanflow.cli import main
from discrete_meanflow.io import kinds
from discrete_meanflow.io.from_python import dataset_from_python
from discrete_meanflow.model.options import FitOptions
from discrete_meanflow.model.prepare import prepare
from discrete_meanflow.model.run_folder import read_config
from discrete_meanflow.model.train import train
from discrete_meanflow.training import Distributed
from test_cli import in_process

FILES = [name for name in kinds.KINDS if "tokenised" not in name]  # tested separately


WORDS = [f"{a}{b}{c}" for a in "abcd" for b in "efgh" for c in ("", "i", "jk")]


ROWS = [[a, b, "same"] for a in ("red", "blue", "grey") for b in ("x", "y")] * 6


def write(folder, kind):
    """Write a small file of a kind."""
    if kind == "array":
        path = folder / "data.npy"
        numpy.save(path, numpy.random.default_rng(0).integers(0, 3, (60, 2, 3)))
        return path
    text = {
        "lines": ("data.txt", "\n".join(WORDS)),
        "windows": ("long.txt", "it was a dark and stormy night.\n\n" * 40),
        "smiles": (
            "data.smi",
            "smiles\n" + "\n".join("C" * n + "O" * (n % 3) for n in range(1, 40)),
        ),
        "fasta": ("data.fasta.gz", "".join(f">{i}\n{w}\n" for i, w in enumerate(WORDS))),
        "table": ("data.csv", "colour,letter,k\n" + "\n".join(",".join(r) for r in ROWS)),
    }
    name, content = text[kind]
    path = folder / name
    content = content.encode()
    path.write_bytes(gzip.compress(content, mtime=0) if name.endswith("gz") else content)
    return path


def train_by_command(monkeypatch, capsys, path, out, *words):
    """Train a small run with ``dmf train``."""
    options = ("--out", out, "--iterations", 12, "--size", 1e4, "--batch", 16, "--device", "cpu")
    code, _, err = in_process(monkeypatch, capsys, "train", path, *options, *words)
    assert code == 0, err
    return OneStepModel.load(out, "cpu")


def prepared(folder, **changes):
    """Write a run that is ready to be trained, with changes to its plan."""
    kind, dataset = dataset_from_python(WORDS)
    prepare(folder, kind, dataset, SMALL, Distributed())
    config = json.loads((folder / "config.json").read_text())
    config["plan"] |= changes
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def stage_steps(plan):
    """Optimiser steps of the teacher, the student and distribution matching."""
    return plan.teacher_steps, plan.student_steps, plan.matching_steps


def train_run(folder, on_progress=lambda event: None):
    """Train the run in a folder."""
    train(folder, read_config(folder), Distributed(), on_progress)


SMALL = FitOptions(iterations=40, size=1e4, batch=16, matching="yes")
ATTENTION = {"width": 16, "layers": 1, "heads": 2, "muon_ratio": 4.0}


def run_command(*words):
    """Run ``dmf``; return its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["dmf", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
    return ended.value.code
