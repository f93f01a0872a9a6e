"""``dmf evaluate``: compare samples with held-out records."""

import importlib.util
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from discrete_meanflow.cli import evaluation_tables as tables
from discrete_meanflow.cli.options import RunFolder, embedded
from discrete_meanflow.errors import InputError
from discrete_meanflow.model import evaluation_grids as grids
from discrete_meanflow.model.options import Device, EvaluateOptions, optional
from discrete_meanflow.model.quality_grids import COLUMNS_NOTE, MOST_COLUMNS, PRIVACY, QUALITY
from discrete_meanflow.run.progress import print_line

if TYPE_CHECKING:
    from rich.console import Console

    from discrete_meanflow.model.eval_samples import EvalSamples
    from discrete_meanflow.model.run_folder import Config

NO_SKLEARN = "the scores need scikit-learn: pip install 'discrete-meanflow[evaluate]'"


@dataclass(frozen=True)
class Evaluate:
    """Compare samples of a run with held-out records."""

    run: RunFolder
    """Run folder."""
    options: Annotated[EvaluateOptions, embedded(EvaluateOptions)] = field(
        default_factory=EvaluateOptions
    )
    target: Annotated[str | None, tyro.conf.arg(**optional("COLUMN"))] = None
    """Column of a table whose prediction measures the utility of samples."""
    device: Device = "auto"
    """Device to sample on."""

    def __call__(self) -> None:
        from rich.console import Console

        from discrete_meanflow.model.eval_figure import draw_evaluation
        from discrete_meanflow.model.eval_samples import check_evaluation
        from discrete_meanflow.model.evaluate import evaluate
        from discrete_meanflow.model.run_folder import read_config
        from discrete_meanflow.model.table_quality import check_target
        from discrete_meanflow.run.json_files import write_json

        console, config = Console(), read_config(self.run)
        steps = config.plan.evaluated_steps(config.codec, self.options.steps)
        self = replace(self, options=replace(self.options, steps=steps))
        check_evaluation(self.run, config, self.options)
        check_target(config.codec, self.target)
        if not os.access(self.run, os.W_OK):
            raise InputError(f"cannot write to {self.run}, where the evaluation is saved")
        samples = self._samples(config, console)
        if importlib.util.find_spec("sklearn") is None:
            command = f"dmf evaluate {self.run} {self.options.command_line}"
            print_line(console, f"samples are saved in {self.run}; {NO_SKLEARN}, then {command}")
            return
        evaluation = evaluate(self.run, config, samples, self.target)
        write_json(self.run / "evaluation.json", evaluation)
        self._print(evaluation, console)
        written = f"{self.run}/evaluation.json"
        try:
            draw_evaluation(evaluation, self.run / "evaluation.png")
            written += ", evaluation.png"
        except InputError as error:
            print_line(console, str(error))
        print_line(console, f"written: {written}")

    def _samples(self, config: "Config", console: "Console") -> "EvalSamples":
        """The saved samples if they fit; otherwise new ones, which are saved."""
        from discrete_meanflow.device import find_device
        from discrete_meanflow.model.eval_samples import draw, load_samples, save_samples
        from discrete_meanflow.model.run_folder import read_weights

        samples = load_samples(self.run, config, self.options)
        if samples is not None:
            where = samples.environment
            print_line(
                console,
                f"using the saved samples of {where['date']}, {where['gpu'] or where['machine']}; "
                "to draw new ones, delete samples.safetensors",
            )
            return samples
        kernel = read_weights(self.run, config).to(find_device(self.device))
        samples = draw(self.run, config, kernel, self.options)
        save_samples(self.run, config, samples)
        return samples

    def _print(self, evaluation: dict[str, Any], console: "Console") -> None:
        """Print the scores, what they mean, and advice."""
        from discrete_meanflow.model.evaluate import LEGEND
        from discrete_meanflow.model.likelihood import likelihood_line

        count, scores = evaluation["records"], evaluation["scores"]
        fewer = ", limited to half of the held-out records" * (count < self.options.n)
        console.print(tables.scores_table(f"{self.run}: {count} samples per row{fewer}", scores))
        for name in scores["held out"]:
            print_line(console, f"{name}: {LEGEND[name]}")
        print_line(console, grids.NOTE)
        print_line(console, likelihood_line(evaluation["likelihood"]) + "\n")
        if evaluation["quality"]:
            self._print_quality(evaluation["quality"], console)
        self._print_completions(evaluation["completions"], count, console)
        if evaluation["classes"]:
            self._print_classes(evaluation["classes"], console)
        for line in (*evaluation["quality"].get("verdict", ()), *evaluation["advice"]):
            print_line(console, line)

    def _print_quality(self, quality: dict[str, Any], console: "Console") -> None:
        title = f"Values of cells; target: {quality['target']}"
        console.print(tables.scores_table(title, quality["scores"]))
        for name in quality["scores"]["held out"]:
            print_line(console, f"{name}: {QUALITY[name]}")
        total = len(quality["columns"])
        title = f"\nColumns that differ most: {min(MOST_COLUMNS, total)} of {total}"
        console.print(tables.columns_table(title, quality))
        print_line(console, COLUMNS_NOTE)
        title = f"\nPrivacy; {quality['training rows']:,} training rows"
        console.print(tables.scores_table(title, quality["privacy"]))
        for name, meaning in PRIVACY.items():
            print_line(console, f"{name}: {meaning}")
        print_line(console, "")

    def _print_completions(
        self, completions: dict[str, Any], count: int, console: "Console"
    ) -> None:
        from discrete_meanflow.model.completions import COMPLETION_SCORES

        if "note" in completions:
            print_line(console, f"completions: {completions['note']}")
            return
        title = f"Completions of {count} held-out records, given the observed positions"
        console.print(tables.completions_table(title, completions["fractions"]))
        for name, meaning in COMPLETION_SCORES.items():
            print_line(console, f"{name}: {meaning}")
        print_line(console, grids.COMPLETIONS_NOTE + "\n")

    def _print_classes(self, classes: dict[str, Any], console: "Console") -> None:
        scores, count = classes["scores"], classes["samples"]
        title = f"Classes found by a classifier in {count} samples, single classes at 1 step"
        print_line(console, title)
        console.print(tables.class_table(scores))
        total = len(scores["1 step, guidance 1"]["per class"])
        shown = len(grids.shown_classes(scores))
        if shown < total:
            print_line(console, f"shown: the {shown} classes with the lowest accuracy of {total}")
        print_line(console, grids.CLASS_NOTE + "\n")
