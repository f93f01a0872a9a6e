"""The documentation is true: its links resolve, its tree is the tree, what it names exists."""

import re
import runpy
import sys

import pytest

from doc_pages import DOCS, NOTEBOOKS, PAGES, README, ROOT, cells, name_of

SOURCE = ROOT / "src" / "discrete_meanflow"
TOY = {
    "ring.py": ["--iterations", "20"],
    "names.py": ["--iterations", "20"],
    "joint_bigram.py": ["--iterations", "10"],
}


def anchors(page):
    """Anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


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


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name_of)
def test_links_of_notebooks_resolve(notebook):
    for text in cells(notebook, "markdown"):
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (notebook.parent / target).exists(), f"{target} is missing"


def test_every_page_is_in_the_index():
    listed = set(re.findall(r"^([\w/-]+)$", (DOCS / "index.md").read_text(), re.M))
    listed |= set(re.findall(r"^([\w/-]+)$", (DOCS / "reference/api.md").read_text(), re.M))
    for page in [*PAGES, *NOTEBOOKS]:
        if DOCS in page.parents and page != DOCS / "index.md":
            name = page.relative_to(DOCS).with_suffix("").as_posix()
            assert name in listed or name.removeprefix("reference/") in listed, name


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
    glossary = (DOCS / "reference/glossary.md").read_text()
    rows = re.findall(r"^\|.*\| `([\w./]+)` \|$", glossary, re.M)
    assert rows
    for path in rows:
        assert (SOURCE / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_named_in_the_docs_exist(page):
    """Files of the checkout, or of the library; not those that a run writes."""
    for path in re.findall(r"`((?:[\w.*-]+/)+[\w*-]*(?:\.[\w.]+)?)`", page.read_text()):
        if path not in ("runs/gpu", "tensorboard/", "./node_modules"):
            assert any(ROOT.glob(path)) or any(SOURCE.glob(path)), f"{path} is missing"


def test_tests_named_in_the_docs_exist():
    source = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    files = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    for page in PAGES:
        for name in re.findall(r"\btest_\w+", page.read_text()):
            assert name in files or f"def {name}(" in source, f"{page.name}: {name}"
