"""``dmf explore``: a local web page about finite chains and trained runs."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from discrete_meanflow.cli.options import Flag
from discrete_meanflow.errors import InputError
from discrete_meanflow.model.options import optional

PACKAGES = ("fastapi", "uvicorn", "plotly")
LARGEST_PORT = 65535


@dataclass(frozen=True)
class Explore:
    """Show finite chains and trained runs on a local web page.

    Nothing leaves this machine, and no other machine reaches the page.
    """

    runs: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(**optional("RUN ..."))
    ] = ()
    """Run folders (default: the model that ships with the package)."""
    chain: Annotated[
        Literal["two-state", "ring", "birth-death"] | None, tyro.conf.arg(**optional("NAME"))
    ] = None
    """Chain to show first: two-state, ring or birth-death (default: the runs first)."""
    port: Annotated[int | None, tyro.conf.arg(**optional("N"))] = None
    """Port of the page (default: a free one)."""
    no_browser: Annotated[bool, Flag] = False
    """Print the address instead of opening the page."""

    def __call__(self) -> None:
        if any(importlib.util.find_spec(name) is None for name in PACKAGES):
            raise InputError(
                "explore needs fastapi, uvicorn and plotly: "
                "pip install 'discrete-meanflow[explore]'"
            )
        if self.port is not None and not 1 <= self.port <= LARGEST_PORT:
            raise InputError(f"port must be from 1 to {LARGEST_PORT}, got {self.port}")
        from discrete_meanflow.explore import serve

        serve(self.runs, self.chain, self.port or 0, not self.no_browser)
