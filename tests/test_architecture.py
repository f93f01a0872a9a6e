"""Imports go one way, light modules stay light, and the language stays plain."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import discrete_meanflow as dmf

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "discrete_meanflow"
REPRODUCTION = ROOT / "reproduction" / "dmf_reproduction"
# Each part may import parts of lower rank, and itself.
RANK = {
    "printable": -1,
    "errors": 0,
    "types": 0,
    "files": 1,
    "device": 1,
    "signals": 1,
    "simplex": 1,
    "clock": 1,
    "state": 2,
    "ctmc": 2,
    "data": 2,
    "io": 3,
    "times": 2,
    "schedule": 3,
    "network": 3,
    "process": 4,
    "kernel": 5,
    "path": 5,
    "objective": 6,
    "sampler": 6,
    "metric": 6,
    "training": 7,
    "run": 8,
    "method": 8,
    "model": 9,
    "pretrained": 10,
    "report": 10,
    "web": 10,
    "explore": 11,
    "cli": 12,
    "__main__": 13,
    "__init__": 13,
}
STRANGERS = [("process", "data"), ("data", "ctmc")]  # must not import each other, whatever the rank
FILES = sorted(SOURCE.rglob("*.py"))
OPTIONAL = ("accelerate", "fastapi", "matplotlib", "onnx", "pandas", "plotly", "pyarrow", "rdkit",
            "scipy", "sklearn", "tensorboard", "tokenizers", "uvicorn")  # fmt: skip


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
        assert not module.startswith("dmf_reproduction"), "the library must not know it"
        if not module.startswith("discrete_meanflow."):
            continue
        theirs = module.split(".")[1]
        assert theirs == mine or RANK[theirs] < RANK[mine], f"{mine} imports {theirs}"
        assert (mine, theirs) not in STRANGERS


def test_commands_do_not_load_torch():
    """Nor does anything that they import."""
    light = [p for p in FILES if part_of(p) == "cli"]
    names = [".".join(p.relative_to(SOURCE.parent).with_suffix("").parts) for p in light]
    code = (
        "import importlib, sys\n"
        f"for name in {names}:\n"
        "    importlib.import_module(name.removesuffix('.__init__'))\n"
        "    assert 'torch' not in sys.modules, name\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_library_runs_without_optional_packages():
    """Training and generation need torch, numpy, safetensors and jaxtyping only."""
    code = (
        "import sys\n"
        f"for name in {('tyro', 'rich', *OPTIONAL)}:\n"
        "    sys.modules[name] = None\n"
        "import discrete_meanflow as dmf\n"
        "[getattr(dmf, name) for name in dmf.__all__]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_has_no_side_effects():
    code = (
        "import os, sys; before = dict(os.environ)\n"
        "import discrete_meanflow\n"
        "assert 'torch' not in sys.modules and dict(os.environ) == before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_loads():
    for name in dmf.__all__:
        assert getattr(dmf, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = dmf.nothing


def test_no_part_is_called_utils():
    assert not [p for p in [*FILES, *REPRODUCTION.rglob("*.py")] if "util" in p.stem]


ODD = re.compile(
    r"\b(anew|is told|are told|told of|by heart|in the place of|a look at|gone on with|come apart"
    r"|comes apart|couples|lest|mend|mended)\b|\"Of (the|a|what) "
)
PROSE = [
    *FILES,
    *REPRODUCTION.rglob("*.py"),
    *(p for p in (ROOT / "bench").glob("*.py")),
    *(p for p in (ROOT / "docs").rglob("*.md")),
    *(p for p in (ROOT / "examples").glob("*.py")),
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
]


def test_the_prose_uses_plain_words():
    odd = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in PROSE
        for line in path.read_text().splitlines()
        if ODD.search(line)
    ]
    assert not odd
