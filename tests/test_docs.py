"""The documentation is true: its code runs, its links resolve, its tree is the tree."""

import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

import discrete_meanflow as dmf

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "discrete_meanflow"
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINE_LIMIT = {
    "README.md": 10,
    "docs/reference/parts.md": 14,
    "docs/how-to/extend.md": 18,
    "docs/theory/distribution-matching.md": 16,
}  # of a code block
TOY = {
    "ring.py": ["--iterations", "20"],
    "names.py": ["--iterations", "20"],
    "joint_bigram.py": ["--iterations", "10"],
}


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def python_blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


def executed(page):
    """The namespace after running all blocks of a page, in order."""
    names: dict = {}
    for code in python_blocks(page):
        exec(code, names)
    return names


def anchors(page):
    """Anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", [p for p in PAGES if python_blocks(p)], ids=name_of)
def test_code_blocks_are_short(page):
    for code in python_blocks(page):
        lines = [line for line in code.splitlines() if line]
        assert len(lines) <= LINE_LIMIT[name_of(page)], code


def test_readme_code_runs():
    names = executed(README)
    assert (names["learned"] - names["exact"]).abs().max() < 0.05
    assert names["samples"].shape == names["x_0"].shape
    assert len(names["gen"].sample(3)) == 3


def test_parts_code_runs():
    names = executed(ROOT / "docs/reference/parts.md")
    assert (names["learned"] - names["exact"]).abs().max() < 0.05
    assert names["samples"].shape == (1000, 16)
    assert dmf.marginal_tv(names["samples"], names["data"]) < 0.15
    assert bool((names["filled"][:, :4] == names["tokens"][:, :4]).all())
    assert names["joint"].shape == (1000, 8)
    # The measured settings: our estimators train on pairs with t = r, the paper's does not.
    assert names["ours"].paths.times == dmf.MixedTimes(0.75, dmf.UniformGap(0.02), 0.0)
    assert names["paper"].paths.times == dmf.UniformGap(0.02)


def test_extending_code_runs():
    names = executed(ROOT / "docs/how-to/extend.md")
    assert names["samples"].shape == (100, 8)


def test_distribution_matching_code_runs():
    names = executed(ROOT / "docs/theory/distribution-matching.md")
    assert names["one"].shape == names["four"].shape == (1000, 8)
    weights = [next(names[kernel].parameters()) for kernel in ("student", "pair")]
    assert not torch.equal(*weights)


def test_every_page_with_code_is_run():
    tested = {
        "README.md",
        "docs/reference/parts.md",
        "docs/how-to/extend.md",
        "docs/theory/distribution-matching.md",
    }
    assert {name_of(page) for page in PAGES if python_blocks(page)} == tested


def test_every_example_is_run():
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == TOY.keys()


@pytest.mark.parametrize("name", TOY)
def test_example_prints_results(name, monkeypatch, capsys):
    path = ROOT / "examples" / name
    assert len(path.read_text().splitlines()) <= 40
    monkeypatch.setattr(sys, "argv", [name, *TOY[name]])
    runpy.run_path(str(path), run_name="__main__")
    assert 3 <= len(capsys.readouterr().out.splitlines()) <= 6


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_resolve(page):
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", page.read_text()):
        linked = (page.parent / target).resolve() if target else page
        assert linked.exists(), f"{target} is missing"
        if anchor:
            assert anchor in anchors(linked), f"{target}#{anchor} is missing"


def test_every_docs_page_is_in_the_index():
    index = (ROOT / "docs/index.md").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").as_posix()
        assert name == "index.md" or f"({name})" in index, name


def test_readme_is_short():
    assert len(README.read_text().splitlines()) <= 170


def test_readme_tree_is_the_tree():
    tree = README.read_text().split("```text\n")[1].split("```")[0].splitlines()
    packages, folders = (
        {line.split()[0] for line in tree if line.startswith("  ") is nested}
        for nested in (True, False)
    )
    on_disk = {f"{path.parent.name}/" for path in SOURCE.glob("*/__init__.py")}
    assert packages == on_disk
    for folder in folders:
        assert (ROOT / folder).is_dir(), folder


def test_glossary_names_files_that_exist():
    glossary = (ROOT / "docs/reference/glossary.md").read_text()
    rows = re.findall(r"^\|.*\| `([\w./]+)` \|$", glossary, re.M)
    assert rows
    for path in rows:
        assert (SOURCE / path).exists(), path


def test_tests_named_in_the_docs_exist():
    source = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    files = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    for page in PAGES:
        for name in re.findall(r"\btest_\w+", page.read_text()):
            assert name in files or f"def {name}(" in source, f"{page.name}: {name}"
