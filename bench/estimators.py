"""What a training step of each objective costs, against the paper's single sample.

    python bench/estimators.py [--device cuda] [--law "bigram (16, 32)"]

The step of the experiment ``estimators``: the paper's Transformer under masking, three seeds
side by side, on paths drawn beforehand; all objectives in one run.
"""

import argparse
from pathlib import Path

from discrete_meanflow.training import Trainer
from dmf_reproduction.engine.experiment import Scale
from dmf_reproduction.experiments.estimators import BASELINES, ESTIMATORS
from dmf_reproduction.experiments.sequence_parts import sequence_cell
from side_by_side import RESULTS, library_step, record

SEEDS = [42, 123, 2024]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--law", default="bigram (4, 8)", help="a configuration of the paper")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    steps = 3 if given.device == "cpu" else 100
    each = {}
    for name in (*ESTIMATORS, *BASELINES):
        cell = sequence_cell(given.law, name, Scale.paper)
        trainer = Trainer(cell.problem, cell.recipe, SEEDS, given.device)
        paths = trainer._draw(steps, trainer.generators)
        each[name] = library_step(trainer, paths, 3, given.device)
    numbers: dict[str, float | str] = {"law": given.law}
    for name, step in each.items():
        numbers[f"{name}: ms per step and seed"] = 1e3 * step
        numbers[f"{name}: over the single sample"] = step / each["KR"]
    command = f'python bench/estimators.py --device {given.device} --law "{given.law}"'
    record(f"estimators-{given.device}", given.device, command, numbers, given.out)


if __name__ == "__main__":
    main()
