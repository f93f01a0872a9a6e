"""``dmf evaluate``: compare samples with held-out records."""

import importlib.util
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from discrete_meanflow.cli.options import RunFolder, embedded
from discrete_meanflow.errors import InputError
from discrete_meanflow.model.options import Device, EvaluateOptions
from discrete_meanflow.run.progress import print_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from discrete_meanflow.model.eval_samples import EvalSamples
    from discrete_meanflow.model.run_folder import Config

NO_SKLEARN = "the scores need scikit-learn: pip install 'discrete-meanflow[evaluate]'"
NOTE = (
    "'held out' is the score of real data, which a perfect generator would reach. Copies are an\n"
    "exception for strings: held-out strings never occur in training, generated ones may."
)


@dataclass(frozen=True)
class Evaluate:
    """Compare samples of a run with held-out records."""

    run: RunFolder
    """Run folder."""
    options: Annotated[EvaluateOptions, embedded(EvaluateOptions)] = field(
        default_factory=EvaluateOptions
    )
    device: Device = "auto"
    """Device to sample on."""

    def __call__(self) -> None:
        from rich.console import Console

        from discrete_meanflow.model.evaluate import LEGEND, draw_evaluation, evaluate
        from discrete_meanflow.model.run_folder import read_config
        from discrete_meanflow.run.json_files import write_json

        console, config = Console(), read_config(self.run)
        samples = self._samples(config, console)
        if importlib.util.find_spec("sklearn") is None:
            command = f"dmf evaluate {self.run} {self.options.command_line}"
            print_line(console, f"samples are saved in {self.run}; {NO_SKLEARN}, then {command}")
            return
        evaluation = evaluate(self.run, config, samples)
        write_json(self.run / "evaluation.json", evaluation)
        console.print(self._table(evaluation))
        for name in evaluation["scores"]["held out"]:
            print_line(console, f"{name}: {LEGEND[name]}")
        print_line(console, NOTE)
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

    def _table(self, evaluation: dict[str, Any]) -> "Table":
        from rich.table import Table
        from rich.text import Text

        count, n = evaluation["records"], self.options.n
        fewer = ", limited to half of the held-out records" if count < n else ""
        table = Table(  # narrow: eleven columns fit into eighty characters
            title=Text(f"{self.run}: {count} samples per row{fewer}"),
            title_justify="left", box=None, padding=(0, 1, 0, 0),
        )  # fmt: skip
        names = list(evaluation["scores"]["held out"])
        for name in ("", *names):
            heading = name.replace("-", " ").replace(" ", "\n")
            table.add_column(heading, justify="right", overflow="fold")
        for row, scores in evaluation["scores"].items():
            table.add_row(row, *(f"{scores[name]:.3f}" for name in names))
        return table
