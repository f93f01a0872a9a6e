"""The reproduction is a package beside the library, with commands of its own."""

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "reproduction/pyproject.toml").read_text())["project"]
COMMANDS = PROJECT["entry-points"]["discrete_meanflow.commands"]


@pytest.mark.parametrize("name", COMMANDS)
def test_entry_point_is_a_callable_command(name):
    module, _, attribute = COMMANDS[name].partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert callable(command.__call__)
    assert command.__doc__


def test_figures_and_reports_load_no_torch():
    code = (
        "import sys\n"
        "import dmf_reproduction.cli, dmf_reproduction.figures.draw\n"
        "import dmf_reproduction.report.markdown, discrete_meanflow.report\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_experiments_run_without_plot_packages():
    """A machine with a GPU may have little more than PyTorch; figures can be drawn elsewhere."""
    code = (
        "import sys\n"
        "for name in ('tyro', 'rich', 'matplotlib', 'scipy', 'sklearn', 'rdkit'):\n"
        "    sys.modules[name] = None\n"
        "import dmf_reproduction.engine.run\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
