"""Pack an evaluated run as a model that ships with the library.

    python -m dmf_reproduction.pack_pretrained RUN NAME

Weights are stored in half precision. Training and held-out records, checkpoints, samples and logs
are left out. The model card, README.md, is written by hand. Its scores are those of the stored
weights: copy them into the run, repeat ``dmf evaluate`` and copy ``evaluation.json`` back.
"""

import argparse
import shutil
from pathlib import Path

from discrete_meanflow.model import run_folder
from discrete_meanflow.pretrained import FOLDER

KEPT = ("config.json", "data.json", "environment.json", "training.json", "evaluation.json")


def pack(run: Path, target: Path) -> None:
    """Write the files of a run that sampling and its report need."""
    kernel = run_folder.read_weights(run, run_folder.read_config(run))
    target.mkdir(exist_ok=True)
    for name in KEPT:
        shutil.copyfile(run / name, target / name)
    run_folder.write_weights(target, kernel.half())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    options = parser.parse_args()
    pack(options.run, FOLDER / options.name)


if __name__ == "__main__":
    main()
