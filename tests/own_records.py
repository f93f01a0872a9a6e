"""Small records of every kind, and runs on them."""

import gzip
import json

import numpy

from discrete_meanflow import OneStepModel
from discrete_meanflow.data import kind as kinds
from discrete_meanflow.model.prepare import dataset_of, prepare
from test_cli import in_process

FILES = [name for name in kinds.KINDS if "tokenised" not in name]  # which have tests of their own


WORDS = [f"{a}{b}{c}" for a in "abcd" for b in "efgh" for c in ("", "i", "jk")]


ROWS = [[a, b, "same"] for a in ("red", "blue", "grey") for b in ("x", "y")] * 6


def write(folder, kind):
    """A small file of each kind."""
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
    given = ("train", path, "--out", out, "--iterations", 12, "--size", 1e4, "--batch", 16)
    code, _, err = in_process(monkeypatch, capsys, *given, "--device", "cpu", *words)
    assert code == 0, err
    return OneStepModel.load(out, "cpu")


def prepared(folder, **changes):
    """A run that is ready to be trained, its plan changed as asked."""
    kind, dataset = dataset_of(WORDS)
    prepare(folder, kind, dataset, "cpu", iterations=40, size=1e4, batch=16)
    config = json.loads((folder / "config.json").read_text())
    config["plan"] |= changes
    (folder / "config.json").write_text(json.dumps(config))
    return folder


ATTENTION = {"width": 16, "layers": 1, "heads": 2, "minibatch_ot": 8, "muon": 4.0}
