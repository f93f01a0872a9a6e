"""The house keeps its order: imports go one way, and light things stay light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "discrete_meanflow"
# Each part may import those of lower rank, and itself.
RANK = {
    "errors": 0,
    "types": 0,
    "files": 1,
    "device": 1,
    "simplex": 1,
    "tau": 1,
    "ctmc": 2,
    "data": 2,
    "times": 2,
    "schedule": 3,
    "network": 3,
    "process": 4,
    "kernel": 5,
    "objective": 6,
    "sampler": 6,
    "metric": 6,
    "training": 7,
    "experiment": 8,
    "report": 8,
    "progress": 8,
    "guard": 2,
    "signals": 1,
    "onestep": 8,
    "cli": 9,
    "__main__": 10,
    "__init__": 10,
}
STRANGERS = [("objective", "sampler"), ("sampler", "objective"), ("process", "kernel"),
             ("experiment", "report"), ("report", "experiment")]  # fmt: skip
FILES = sorted(SOURCE.rglob("*.py"))


def part_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=[str(p.relative_to(SOURCE)) for p in FILES])
def test_imports_go_one_way(path):
    mine = part_of(path)
    for module in imports(path):
        if not module.startswith("discrete_meanflow."):
            continue
        theirs = module.split(".")[1]
        assert theirs == mine or RANK[theirs] <= RANK[mine], f"{mine} imports {theirs}"
        assert (mine, theirs) not in STRANGERS
        if theirs != mine and RANK[theirs] == RANK[mine]:
            assert mine in ("ctmc", "metric", "types"), f"{mine} and {theirs} are of one rank"


def test_reports_and_commands_do_not_load_torch():
    """Nor does anything that they import."""
    light = [p for p in FILES if part_of(p) in ("report", "progress", "cli")]
    names = [".".join(p.relative_to(SOURCE.parent).with_suffix("").parts) for p in light]
    code = (
        "import importlib, sys\n"
        f"for name in {names}:\n"
        "    importlib.import_module(name.removesuffix('.__init__'))\n"
        "    assert 'torch' not in sys.modules, name\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_core_runs_without_the_command_line_and_plot_packages():
    """On a bare GPU machine there may be little but PyTorch."""
    code = (
        "import sys\n"
        "for name in ('tyro', 'rich', 'matplotlib', 'scipy', 'sklearn', 'rdkit'):\n"
        "    sys.modules[name] = None\n"
        "import discrete_meanflow.experiment.__main__\n"
        "import discrete_meanflow as dmf\n"
        "[getattr(dmf, name) for name in dmf.__all__]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_does_not_load_torch():
    code = "import sys, discrete_meanflow.cli; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_part_is_called_utils():
    assert not [p for p in FILES if "util" in p.stem]
