"""The command ``dmf``. Torch is imported by the commands that need it, not by ``--help``."""

import contextlib
import io
import re
import sys
from collections.abc import Callable
from typing import Annotated

import tyro

from discrete_meanflow import __version__
from discrete_meanflow.cli.generate import Evaluate, Export, Sample, Train
from discrete_meanflow.cli.reproduce import Demo, Draw, List, Reproduce
from discrete_meanflow.guard import run_guarded

Command = (
    Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Sample, tyro.conf.subcommand("sample")]
    | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
    | Annotated[Export, tyro.conf.subcommand("export")]
    | Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
    | Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Draw, tyro.conf.subcommand("draw")]
)


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        print(f"dmf {__version__}")
        return
    sys.exit(run_guarded(_parsed()))


def _parsed() -> Callable[[], None]:
    """The command as given; what the parser objects to becomes one line."""
    objection = io.StringIO()
    try:
        with contextlib.redirect_stderr(objection):
            return tyro.cli(
                Command, prog="dmf", description="One-step generation of discrete data."
            )
    except SystemExit as stop:
        if stop.code:
            print(f"dmf: {_in_one_line(objection.getvalue())}", file=sys.stderr)
        raise


def _in_one_line(box: str) -> str:
    """What stands in a box without its heading, which says the same, rules between its parts."""
    body = re.sub(r"\A(╭.*|.*\n *-{3,} *)\n", "", box)  # as a terminal has it, or a plain one
    parts = re.split("─{3,}|-{3,}", body)
    said = (" ".join(re.sub(r"[^\x20-\x7e]+", " ", part).split()).rstrip(".") for part in parts)
    return "; ".join(filter(None, said))
