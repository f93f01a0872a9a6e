"""Directives of the reference: the public names of a package, and the help of all commands.

Both read the code, so no name or option is written twice.
"""

import contextlib
import importlib
import inspect
import io
import re
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import discrete_meanflow
from discrete_meanflow.cli import COMMANDS, main

WIDTH = "88"  # columns of a help text


def public_names(package: str) -> Iterator[str]:
    """Full names of a package's objects: those of the flat namespace first, then the generic."""
    flat = [name for name, module in discrete_meanflow._MODULES.items() if module == package]
    yield from (f"discrete_meanflow.{name}" for name in flat)
    for name, item in vars(importlib.import_module(package)).items():
        if name in discrete_meanflow.__all__ or name.startswith("_") or not callable(item):
            continue
        if item.__module__.startswith(package):
            yield f"{package}.{name}"


def find(name: str) -> Any:
    """The object with a full name."""
    package, _, last = name.rpartition(".")
    return getattr(importlib.import_module(package), last)


class PublicNames(SphinxDirective):
    """``{public-names} PACKAGE``: classes and functions with their docstrings."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        lines = ["```{eval-rst}"]
        for name in public_names(self.arguments[0]):
            kind = "class" if inspect.isclass(find(name)) else "function"
            lines += [f".. auto{kind}:: {name}", ""]
        return self.parse_text_to_nodes("\n".join([*lines, "```"]))


class Commands(SphinxDirective):
    """``{commands}``: a section for each command with what ``dmf COMMAND --help`` prints."""

    def run(self) -> list[nodes.Node]:
        sections = [f"## dmf {name}\n\n```text\n{help_text(name)}\n```" for name in COMMANDS]
        return self.parse_text_to_nodes("\n\n".join(sections), allow_section_headings=True)


def help_text(command: str) -> str:
    text = io.StringIO()
    with (
        patch.object(sys, "argv", ["dmf", command, "--help"]),
        patch.dict("os.environ", {"COLUMNS": WIDTH, "NO_COLOR": "1"}),
        contextlib.redirect_stdout(text),
        contextlib.suppress(SystemExit),
    ):
        main()
    return text.getvalue()


def readable(*event: Any) -> tuple[str, str] | None:
    """The signature with the names of functions as defaults, which Sphinx can parse."""
    *_, signature, result = event
    return signature and (re.sub(r"<function (\w+)[^>]*>", r"\1", signature), result)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("public-names", PublicNames)
    app.add_directive("commands", Commands)
    app.connect("autodoc-process-signature", readable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
