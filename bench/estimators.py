"""Cost of a training step of each objective, relative to the paper's single sample.

    python bench/estimators.py [--device cuda] [--law "bigram (16, 32)"]

The step is that of the experiment ``estimators``: the paper's Transformer under masking, three
seeds in parallel, on precomputed paths. One run measures all objectives.
"""

import argparse
from pathlib import Path

from discrete_meanflow.training import Trainer
from dmf_reproduction import SEEDS
from dmf_reproduction.engine.experiment import Scale
from dmf_reproduction.experiments.sequence_parts import sequence_cell
from dmf_reproduction.settings import BASELINES, ESTIMATORS
from measure import RESULTS, library_step, record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--law", default="bigram (4, 8)", help="configuration of the paper")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    steps = 3 if options.device == "cpu" else 100
    step_seconds = {}
    for name in (*ESTIMATORS, *BASELINES):
        cell = sequence_cell(options.law, name, Scale.paper)
        trainer = Trainer(cell.problem, cell.recipe, SEEDS, options.device)
        paths = trainer._draw(steps, trainer.generators)
        step_seconds[name] = library_step(trainer, paths, 3, options.device)
    numbers: dict[str, float | str] = {"law": options.law}
    for name, step in step_seconds.items():
        numbers[f"{name}: ms per step and seed"] = 1e3 * step
        numbers[f"{name}: over the single sample"] = step / step_seconds["KR"]
    command = f'python bench/estimators.py --device {options.device} --law "{options.law}"'
    record(f"estimators-{options.device}", options.device, command, numbers, options.out)


if __name__ == "__main__":
    main()
