"""``dmf report``: one HTML file about runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from discrete_meanflow.cli.options import OptionalPath
from discrete_meanflow.errors import InputError
from discrete_meanflow.model.options import optional
from discrete_meanflow.run.progress import say

NAME = "report.html"


@dataclass(frozen=True)
class Report:
    """Write one HTML file about runs: scores, learning curves, samples and claims.

    The file needs no other file and no network.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(**optional("RUN ..."))]
    """Run folders of `dmf train` and `dmf reproduce`, or folders that contain them."""
    out: OptionalPath = None
    """The file to write; by default report.html in the folder, or here if there are several."""

    def __call__(self) -> None:
        if not self.runs:
            raise InputError("report needs a run folder, as in dmf report runs/names")
        from discrete_meanflow.files import open_output
        from discrete_meanflow.report import report_page

        out = self.out or Path(self.runs[0] if len(self.runs) == 1 else ".") / NAME
        page = report_page(self.runs)
        with open_output(out) as file:
            file.write(page)
        say(f"report: {out}")
