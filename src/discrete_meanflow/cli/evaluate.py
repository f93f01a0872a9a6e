"""``dmf evaluate``: compare samples with held-out records."""

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from discrete_meanflow.cli.options import Device, RunFolder, build
from discrete_meanflow.errors import InputError
from discrete_meanflow.model.options import EvaluateOptions

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from discrete_meanflow.model.eval_samples import EvalSamples
    from discrete_meanflow.model.run_folder import Config

NO_SKLEARN = "the scores need scikit-learn: pip install 'discrete-meanflow[evaluate]'"
LM_STEPS = (
    "Training steps of a reference language model that measures bits per symbol, such as 3000; "
    "slow without a GPU. 0 disables it."
)
NOTE = (
    "'held out' is the score of real data, which a perfect generator would reach. Only its copies\n"
    "may be fewer: held-out strings never occur in training, but those of a generator may."
)


@dataclass(frozen=True)
class Evaluate:
    """Compare samples of a run with held-out records."""

    run: RunFolder
    """Run folder."""
    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = EvaluateOptions.n
    """Records to generate at each number of steps."""
    steps: Annotated[tuple[int, ...], tyro.conf.arg(metavar="K ...")] = EvaluateOptions.steps
    """Numbers of forward passes."""
    lm_steps: Annotated[int, tyro.conf.arg(help=LM_STEPS)] = EvaluateOptions.lm_steps
    seed: int = EvaluateOptions.seed
    """Random seed for sampling."""
    device: Device = "auto"
    """Device to sample on."""

    def __call__(self) -> None:
        from rich.console import Console

        from discrete_meanflow.model.evaluate import evaluate
        from discrete_meanflow.model.figure import draw_evaluation
        from discrete_meanflow.model.run_folder import read_config
        from discrete_meanflow.run.json_files import write_json

        console, options, config = Console(), build(EvaluateOptions, self), read_config(self.run)
        samples = self._samples(options, config, console)
        if importlib.util.find_spec("sklearn") is None:
            command = f"dmf evaluate {self.run} {options.command_line}"
            _print(console, f"samples are saved in {self.run}; {NO_SKLEARN}, then {command}")
            return
        evaluation = evaluate(self.run, config, samples)
        write_json(self.run / "evaluation.json", evaluation)
        console.print(self._table(evaluation))
        self._print_legend(evaluation, console)
        written = f"{self.run}/evaluation.json"
        try:
            draw_evaluation(evaluation, self.run / "evaluation.png")
            written += ", evaluation.png"
        except InputError as error:
            _print(console, str(error))
        _print(console, f"written: {written}")

    def _samples(
        self, options: EvaluateOptions, config: "Config", console: "Console"
    ) -> "EvalSamples":
        """The saved samples if they fit; otherwise new ones, which are saved."""
        from discrete_meanflow.device import find_device
        from discrete_meanflow.model.eval_samples import draw, load_samples, save_samples
        from discrete_meanflow.model.weights import read_weights

        samples = load_samples(self.run, config, options)
        if samples is not None:
            where = samples.environment
            _print(
                console,
                f"using the saved samples of {where['date']}, {where['gpu'] or where['machine']}; "
                "to draw new ones, delete samples.safetensors",
            )
            return samples
        kernel = read_weights(self.run, config).to(find_device(self.device))
        samples = draw(self.run, config, kernel, options)
        save_samples(self.run, config, samples)
        return samples

    def _table(self, evaluation: dict[str, Any]) -> "Table":
        from rich.table import Table
        from rich.text import Text

        count = evaluation["records"]
        fewer = f" ({self.n} asked for; half of the held-out records)" if count < self.n else ""
        table = Table(  # narrow: eleven columns fit into eighty characters
            title=Text(f"{self.run}: {count} records per row{fewer}"),
            title_justify="left", box=None, padding=(0, 1, 0, 0),
        )  # fmt: skip
        names = list(evaluation["scores"]["held out"])
        for name in ("", *names):
            heading = name.replace("-", " ").replace(" ", "\n")
            table.add_column(heading, justify="right", overflow="fold")
        for row, scores in evaluation["scores"].items():
            table.add_row(row, *(f"{scores[name]:.3f}" for name in names))
        return table

    def _print_legend(self, evaluation: dict[str, Any], console: "Console") -> None:
        from discrete_meanflow.model.evaluate import LEGEND

        for name in evaluation["scores"]["held out"]:
            _print(console, f"{name}: {LEGEND[name]}")
        _print(console, NOTE)


def _print(console: "Console", line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)
