"""``python -m dmf_reproduction``: the four commands from a checkout without installed metadata."""

import sys
from collections.abc import Callable
from typing import Any

import tyro

from discrete_meanflow.cli.exit_codes import run_guarded
from dmf_reproduction.cli import Demo, Draw, List, Reproduce


def main() -> int:
    commands: dict[str, Callable[..., Any]] = {
        "list": List,
        "reproduce": Reproduce,
        "demo": Demo,
        "draw": Draw,
    }
    command = tyro.extras.subcommand_cli_from_dict(commands, prog="python -m dmf_reproduction")
    return run_guarded(command)


if __name__ == "__main__":
    sys.exit(main())
