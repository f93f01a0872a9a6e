"""The page: chapters of folders, rendered by templates that escape all text."""

import base64
import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from discrete_meanflow import __version__
from discrete_meanflow.report.benchmarks import Benchmarks
from discrete_meanflow.report.blocks import Block, guarded
from discrete_meanflow.report.reproduction import Reproduction
from discrete_meanflow.report.sources import Source, find_sources
from discrete_meanflow.report.train_run import TrainRun

if TYPE_CHECKING:
    from jinja2 import Environment

KINDS: tuple[type[Source], ...] = (Reproduction, TrainRun, Benchmarks)
TEMPLATES = "templates"


@dataclass(frozen=True)
class Chapter:
    """All folders of one kind, and what is said about them together."""

    kind: type[Source]
    sources: tuple[Source, ...]
    overview: tuple[Block, ...]


def report_page(folders: Sequence[Path], title: str = "") -> bytes:
    """One HTML file that shows folders of runs and needs no other file.

    Args:
        folders: run folders of ``dmf train`` and ``dmf reproduce``, or folders that contain them.
        title: of the page; by default made from the names of the folders.
    """
    sources = find_sources(folders, KINDS)
    kinds = [kind for kind in KINDS if any(type(source) is kind for source in sources)]
    chapters = [_chapter(kind, sources) for kind in kinds]
    script, style = (_text(name) for name in ("page.js", "style.css"))
    policy = (
        f"default-src 'none'; img-src data:; script-src '{_digest(script)}'; "
        f"style-src '{_digest(style)}'"
    )
    html = (
        _environment()
        .get_template("page.html")
        .render(
            title=title or chapters[0].kind.title(folders),
            chapters=chapters,
            sources=sources,
            command=shlex.join(["dmf", "report", *map(str, folders)]),
            version=__version__,
            policy=policy,
            script=script,
            style=style,
        )
    )
    return html.encode(errors="replace")  # JSON may contain halves of characters


def _chapter(kind: type[Source], sources: Sequence[Source]) -> Chapter:
    own = tuple(sorted((s for s in sources if type(s) is kind), key=lambda source: source.rank))
    return Chapter(kind, own, tuple(guarded(lambda: kind.overview(own))))


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("discrete_meanflow.report", TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )


def _text(name: str) -> str:
    """The script or the style of the page, which are the only texts that are not escaped."""
    from markupsafe import Markup

    return Markup((files(__package__) / TEMPLATES / name).read_text(encoding="utf-8"))


def _digest(text: str) -> str:
    """The hash by which the content security policy permits a script or a style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
