"""The folder of a web page that generates records."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from discrete_meanflow.io.subword_codec import SubwordCodec
from discrete_meanflow.model.export import export
from discrete_meanflow.model.one_step_model import OneStepModel
from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.model.views import layout_view
from discrete_meanflow.run.json_files import Json, write_json
from discrete_meanflow.web.runtime import find_runtime
from discrete_meanflow.web.site_folder import replace_folder

STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True)
class Site:
    """An exported page.

    Args:
        size: bytes of the folder.
        graph_size: bytes of the ONNX graph in it.
        difference: the largest difference between the graph and PyTorch.
    """

    size: int
    graph_size: int
    difference: float


def export_site(model: OneStepModel, folder: Path, runtime: Path | None = None) -> Site:
    """Write a page that runs the one step of a model in the visitor's browser.

    Args:
        model: the trained model.
        folder: a new or empty folder, or an earlier export, which is replaced.
        runtime: see :func:`find_runtime`.
    """
    library = find_runtime(runtime)
    with replace_folder(folder) as site:
        difference = export(model.kernel, model.config, site / "model.onnx")
        write_json(site / "model.json", page_view(model.config, model.folder.resolve().name))
        for path in STATIC.iterdir():
            shutil.copyfile(path, site / path.name)
        library.copy(site / "onnxruntime")
        sizes = {path: path.stat().st_size for path in site.rglob("*") if path.is_file()}
        return Site(sum(sizes.values()), sizes[site / "model.onnx"], difference)


def page_view(config: Config, name: str) -> Json:
    """What the page reads from ``model.json``.

    Args:
        config: of the run.
        name: heading of the page.
    """
    codec = config.codec
    return {
        "name": name,
        **layout_view(config),
        "length": codec.length,
        "vocabulary": codec.vocabulary,
        # Their text depends on the tokenizer, which the page does not have.
        "subwords": isinstance(codec.bare, SubwordCodec),
    }
