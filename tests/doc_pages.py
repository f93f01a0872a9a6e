"""The pages of the documentation, their code blocks and their commands."""

import json
import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README = ROOT / "README.md"
BUILT = DOCS / "_build"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in DOCS.rglob("*.md") if BUILT not in page.parents),
]


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def blocks(page, language):
    """The code blocks of a page in one language."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S)


def commands(page):
    """The shell commands of a page, as lists of words."""
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            for command in line.split(" && "):
                if words := shlex.split(command, comments=True):
                    yield words


def cells(notebook, kind):
    """The source of a notebook's cells: kind is "code" or "markdown"."""
    content = json.loads(notebook.read_text())
    return ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == kind]


def at_toy_size(code):
    """The code with trainings of a few steps."""
    code = re.sub(r"minutes=[\d.]+", "iterations=8", code)
    return re.sub(r"iterations=\d+", "iterations=8", code)


def run(parts):
    """The namespace after running pieces of code in order."""
    names: dict = {}
    for code in parts:
        exec(code, names)
    return names
