"""What the commands share: argument types, and options values built from them."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tyro

RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
Device = Literal["auto", "cpu", "cuda"]
Flag = tyro.conf.FlagCreatePairsOff
Options = TypeVar("Options")


def optional(metavar: str, name: str | None = None, text: str | None = None) -> Any:
    """An optional argument: its placeholder in help, its name, and its help if it is long."""
    return tyro.conf.arg(name=name, metavar=metavar, help=text, help_behavior_hint="")


def build(options: type[Options], command: Any) -> Options:
    """Build an options value from the fields of a command that have the same names."""
    return options(**{field.name: getattr(command, field.name) for field in fields(options)})  # type: ignore[arg-type]
