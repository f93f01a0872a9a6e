"""The command ``dmf``. Commands import PyTorch when they run, so that ``--help`` is quick.

Other packages add commands through the entry-point group ``discrete_meanflow.commands``: each
entry is a dataclass whose instances are callable.
"""

import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Annotated, Any, Union

import tyro

from discrete_meanflow import __version__
from discrete_meanflow.cli.compare import Compare
from discrete_meanflow.cli.compiled_code import keep_compiled_code
from discrete_meanflow.cli.evaluate import Evaluate
from discrete_meanflow.cli.exit_codes import run_guarded
from discrete_meanflow.cli.explore import Explore
from discrete_meanflow.cli.export import Export
from discrete_meanflow.cli.fill import Fill
from discrete_meanflow.cli.report import Report
from discrete_meanflow.cli.sample import Sample
from discrete_meanflow.cli.train import Train
from discrete_meanflow.errors import InputError

COMMANDS = {
    "train": Train,
    "sample": Sample,
    "fill": Fill,
    "evaluate": Evaluate,
    "compare": Compare,
    "report": Report,
    "export": Export,
    "explore": Explore,
}
GROUP = "discrete_meanflow.commands"
DESCRIPTION = (
    "Train on a file, then generate new records in one forward pass. "
    f"This is version {__version__}; dmf --version prints it. dmf COMMAND --help shows all options."
)
SPIN_COUNT = "3000"
PATTERN_OPTIONS = ("--infill", "--class")  # their values may begin with "-", as in aligned FASTA
NOISE = ("Argument helptext", "For full helptext")  # in messages of the parser


def main() -> None:
    """Run the command in ``sys.argv`` and exit with its code."""
    set_spin_count()
    keep_compiled_code()
    sys.exit(run_guarded(lambda: _run(sys.argv[1:])))


def _run(words: list[str]) -> None:
    """Run the command that the words name."""
    if words == ["--version"]:
        print(f"dmf {__version__}")
    else:
        _parse(_commands(words))()


def set_spin_count() -> None:
    """Let waiting OpenMP threads sleep soon, unless the user has set it or torch is loaded.

    By default they spin a hundred times as long: with other programs on the same cores, threads do
    little else. PyTorch reads the variable when it is imported.
    """
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)


def _commands(words: list[str]) -> dict[str, type]:
    """The commands to choose from. Other packages are loaded only if they are needed."""
    name = words[0] if words else "--help"
    if name in COMMANDS:
        return COMMANDS
    others = {entry.name: entry for entry in entry_points(group=GROUP)}
    show_all, commands = name.startswith("-"), dict(COMMANDS)
    if not show_all and name not in others:
        known = ", ".join([*COMMANDS, *others])
        raise InputError(
            f"unknown command '{name}'; known: {known}. The reproduction of the paper adds "
            "others: pip install ./reproduction"
        )
    for entry in others.values() if show_all else [others[name]]:
        with contextlib.suppress(ImportError):
            commands[entry.name] = entry.load()
    if not show_all and name not in commands:
        module = others[name].value.partition(":")[0]
        raise InputError(f"cannot import {module}, which provides '{name}'")
    return commands


def _parse(commands: dict[str, type]) -> Callable[[], None]:
    """Parse ``sys.argv``; an error of the parser becomes one line."""
    types = tuple(
        Annotated[command, tyro.conf.subcommand(name)] for name, command in commands.items()
    )
    choice: Any = Union[types]  # noqa: UP007 - of a tuple
    message = io.StringIO()
    try:
        # The parser asks standard output whether it is a terminal; it may be closed.
        with (
            contextlib.redirect_stderr(message),
            contextlib.redirect_stdout(sys.stdout or io.StringIO()),
        ):
            return tyro.cli(
                choice, prog="dmf", description=DESCRIPTION, args=list(_attached(sys.argv[1:]))
            )
    except SystemExit as stop:
        if stop.code:
            raise InputError(_one_line(message.getvalue())) from None
        print(end="", flush=True)  # the help: its reader may have left
        raise


def _attached(words: list[str]) -> Iterator[str]:
    """The words, with each pattern attached to its option: whatever follows it is its value."""
    rest = iter(words)
    for word in rest:
        value = next(rest, None) if word in PATTERN_OPTIONS else None
        yield word if value is None else f"{word}={value}"


def _one_line(box: str) -> str:
    """The text of the parser's box without its heading, which repeats it."""
    body = re.sub(r"\A(╭.*|.*\n *-{3,} *)\n", "", box)  # on a terminal, and elsewhere
    parts = re.split("─{3,}|-{3,}", body)
    texts = (" ".join(re.sub(r"[^\x20-\x7e]+", " ", part).split()).rstrip(".") for part in parts)
    return "; ".join(text for text in texts if text and not text.startswith(NOISE))
