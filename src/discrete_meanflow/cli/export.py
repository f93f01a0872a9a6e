"""``dmf export``: write an ONNX graph."""

from dataclasses import dataclass
from pathlib import Path

from discrete_meanflow.cli.options import RunFolder
from discrete_meanflow.run.progress import say


@dataclass(frozen=True)
class Export:
    """Write the generator as one ONNX graph: noise in, probabilities out."""

    run: RunFolder
    """Run folder."""
    onnx: Path
    """Output file."""

    def __call__(self) -> None:
        from discrete_meanflow.model.one_step_model import OneStepModel

        difference = OneStepModel.load(self.run, "cpu").export(self.onnx)
        # Not on standard output, which may be the file.
        say(f"written: {self.onnx}; largest difference from PyTorch {difference:.1e}")
