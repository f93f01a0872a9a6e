"""The command ``dmf``. Torch is imported by the commands that need it, not by ``--help``."""

import contextlib
import io
import os
import re
import sys
from collections.abc import Callable
from typing import Annotated

import tyro

from discrete_meanflow.cli.generate import Evaluate, Export, Sample, Train
from discrete_meanflow.cli.reproduce import Demo, Draw, List, Reproduce
from discrete_meanflow.guard import guarded

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

# How often a thread looks whether the others are ready before it sleeps. By default it is a hundred
# times as often: with other programs on the same cores, threads do little else.
SPINS = "3000"


def main() -> None:
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # read when torch is loaded
    sys.exit(guarded(_parsed()))


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
            words = re.sub(r"[^\x20-\x7e]+|-{3,}", " ", objection.getvalue()).split()
            print(f"dmf: {' '.join(words)}", file=sys.stderr)
        raise
