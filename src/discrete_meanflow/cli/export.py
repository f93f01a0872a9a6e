"""``dmf export``: write an ONNX graph or a web page that runs it."""

from dataclasses import dataclass

from discrete_meanflow.cli.options import OptionalPath, RunFolder
from discrete_meanflow.errors import InputError
from discrete_meanflow.run.progress import say


@dataclass(frozen=True)
class Export:
    """Write the generator as one ONNX graph, or as a web page that runs it in the browser."""

    run: RunFolder
    """Run folder."""
    onnx: OptionalPath = None
    """Output file of the graph: noise in, probabilities out."""
    web: OptionalPath = None
    """Output folder of the web page; replaces an earlier export."""
    runtime: OptionalPath = None
    """Folder of the npm package onnxruntime-web, for --web (default: where npm installs it)."""

    def __call__(self) -> None:
        if self.runtime is not None and self.web is None:
            raise InputError("--runtime is for a web page; add --web FOLDER")
        if self.onnx is None and self.web is None:
            raise InputError("export needs --onnx FILE, --web FOLDER or both")
        from discrete_meanflow.model.one_step_model import OneStepModel
        from discrete_meanflow.web import export_site

        model = OneStepModel.load(self.run, "cpu")
        if self.onnx is not None:
            difference = model.export(self.onnx)
            say(f"written: {self.onnx}; largest difference from PyTorch {difference:.1e}")
        if self.web is not None:
            site = export_site(model, self.web, self.runtime)
            say(
                f"written: {self.web}, {_megabytes(site.size)}, of which the model "
                f"{_megabytes(site.graph_size)}; largest difference from PyTorch "
                f"{site.difference:.1e}; to see it: python -m http.server -d {self.web}"
            )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
