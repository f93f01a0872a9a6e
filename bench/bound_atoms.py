"""SMILES symbols: bound atoms against separate atoms, bonds, rings and branches.

    python bench/bound_atoms.py QM9.smi --minutes 8

Both train with the defaults of ``dmf train`` on a CPU for the same time. The measure is the
fraction of samples that RDKit accepts.
"""

import argparse
import tempfile
from pathlib import Path

import torch

from discrete_meanflow.io.chemistry import BOUND_ATOM, SYMBOL
from discrete_meanflow.io.codec import Dataset
from discrete_meanflow.io.text_codec import TextCodec
from discrete_meanflow.io.text_kinds import Smiles
from discrete_meanflow.model.one_step_model import OneStepModel
from discrete_meanflow.model.options import FitOptions
from discrete_meanflow.model.prepare import prepare
from discrete_meanflow.training import Distributed
from measure import RESULTS, record

STEPS, DRAWS = (1, 4, 16, 64), 3000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    kind = Smiles()
    molecules = kind.read(options.file).records
    numbers: dict[str, float | int] = {"threads": torch.get_num_threads(), "draws": DRAWS}
    for name, symbol in (("bound atoms", BOUND_ATOM), ("atoms apart", SYMBOL)):
        codec = TextCodec.of(molecules, symbol)
        numbers |= {f"{name}: symbols": codec.vocabulary, f"{name}: positions": codec.length}
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            prepare(
                run,
                kind,
                Dataset(molecules, codec),
                FitOptions(minutes=options.minutes, device="cpu"),
                Distributed.from_environment("cpu"),
            )
            model = OneStepModel.resume(run, "cpu")
            for steps in STEPS:
                valid = kind.valid(model.sample(DRAWS, steps, seed=0))
                assert valid is not None  # RDKit is installed
                numbers[f"{name}: valid, {steps} steps"] = sum(valid) / DRAWS
    command = f"python bench/bound_atoms.py {options.file.name} --minutes {options.minutes:g}"
    record("bound-atoms", "cpu", command, numbers, options.out)


if __name__ == "__main__":
    main()
