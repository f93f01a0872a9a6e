"""Molecules of bound atoms against those of atoms, bonds, rings and branches: share that is valid.

    python bench/bound_atoms.py QM9.smi --minutes 8

Both are trained by the defaults of ``dmf train`` for a CPU in as many minutes, and judged by RDKit.
"""

import argparse
import tempfile
from pathlib import Path

import torch

from discrete_meanflow.data.chemistry import BOUND_ATOM, SYMBOL
from discrete_meanflow.data.dataset import Dataset
from discrete_meanflow.data.kind import Smiles
from discrete_meanflow.data.text_codec import TextCodec
from discrete_meanflow.model import OneStepModel
from discrete_meanflow.model.prepare import prepare
from side_by_side import RESULTS, record

STEPS, DRAWS = (1, 4, 16, 64), 3000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    kind = Smiles()
    molecules = kind.read(given.file).records
    numbers: dict[str, float | int] = {"threads": torch.get_num_threads(), "draws": DRAWS}
    for name, symbol in (("bound atoms", BOUND_ATOM), ("atoms apart", SYMBOL)):
        codec = TextCodec.of(molecules, symbol)
        numbers |= {f"{name}: symbols": codec.vocabulary, f"{name}: positions": codec.length}
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            prepare(run, kind, Dataset(molecules, codec), "cpu", minutes=given.minutes)
            model = OneStepModel.resume(run, "cpu")
            for steps in STEPS:
                valid = kind.valid(model.sample(DRAWS, steps, seed=0))
                assert valid is not None  # RDKit is there
                numbers[f"{name}: valid, {steps} steps"] = sum(valid) / DRAWS
    command = f"python bench/bound_atoms.py {given.file.name} --minutes {given.minutes:g}"
    record("bound-atoms", "cpu", command, numbers, given.out)


if __name__ == "__main__":
    main()
