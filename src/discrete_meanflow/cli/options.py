"""What the commands share."""

import functools
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import tyro

from discrete_meanflow.model.options import optional

RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
OptionalRunFolder = Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(**optional("RUN"))]
OptionalPath = Annotated[Path | None, tyro.conf.arg(**optional("PATH"))]
Flag = tyro.conf.FlagCreatePairsOff


@functools.cache  # the annotations are replaced once
def embedded(options: type) -> Any:
    """Make the fields of an options value options of the command, shown as annotated."""
    for name, hint in get_type_hints(options, include_extras=True).items():
        for shown in map(dict, getattr(hint, "__metadata__", ())):
            type_ = hint.__origin__
            if shown.pop("append", False):
                type_ = Annotated[type_, tyro.conf.UseAppendAction]
            options.__annotations__[name] = Annotated[type_, tyro.conf.arg(**shown)]
    return tyro.conf.arg(name="")
