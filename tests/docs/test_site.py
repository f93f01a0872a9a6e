"""The site builds without warnings, opens without a network and documents every public name."""

import html
import os
import re
import subprocess
import sys

import nbformat
import pytest
from fontTools.ttLib import TTFont
from sphinx.util.inventory import InventoryFile

import discrete_meanflow as dmf
from doc_pages import DOCS, NOTEBOOKS, name_of, run

TOY_STEPS = {"training_steps": 20, "count": 20}
LARGEST_NOTEBOOK = 150_000  # bytes, with its outputs


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site. A process of its own, as Sphinx changes many modules."""
    folder = tmp_path_factory.mktemp("site")
    words = ["-W", "-q", "-b", "html", "-d", folder / "doctrees", DOCS, folder / "html"]
    built = subprocess.run([sys.executable, "-m", "sphinx", *words], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder / "html"


def test_the_site_needs_no_network(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img)[^>]*? (?:src|href)=\"([^\"]+)", page.read_text())
        assert loaded
        assert not [address for address in loaded if "//" in address], page.name


@pytest.mark.parametrize("name", ["identity", "estimators", "flow-map", "distribution-matching"])
def test_formulas_are_mathml(site, name):
    text = (site / f"theory/{name}.html").read_text()
    assert len(re.findall(r'<math [^>]*display="block"', text)) >= 4
    assert "<mi>\\" not in text, "a TeX command is not converted"
    prose = re.sub(r"<(code|pre|script)\b.*?</\1>", "", text, flags=re.S)
    assert "$" not in prose


def test_the_font_has_every_character_of_the_formulas(site):
    pages = "".join(page.read_text() for page in site.rglob("*.html"))
    formulas = "".join(re.findall(r"<math .*?</math>", pages, re.S))
    used = set(html.unescape(re.sub(r"<[^>]*>", "", formulas)))
    font = TTFont(DOCS / "extensions/stix-two-math/subset.woff")
    assert "MATH" in font, "without this table, subscripts are not lowered"
    missing = {c for c in used if ord(c) not in font.getBestCmap()}
    assert not missing, "make a larger subset of STIX Two Math with pyftsubset"


def test_every_public_name_is_documented(site):
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    documented = set(inventory.data["py:class"]) | set(inventory.data["py:function"])
    for name in dmf.__all__:
        if not isinstance(getattr(dmf, name), type(os)):  # a submodule
            assert f"discrete_meanflow.{name}" in documented, name


def test_no_docstring_reads_as_a_list_of_letters(site):
    """``states: n.`` would become item n of a list."""
    for page in (site / "reference/api").rglob("*.html"):
        assert not re.findall(r'<ol class="(?:lower|upper)alpha', page.read_text()), page.name


def test_formulas_show_in_a_browser(site, browser):
    page = browser.new_page(viewport={"width": 390, "height": 800})
    errors, requests = [], []
    page.on("pageerror", lambda error: errors.append(error))
    page.on("request", lambda request: requests.append(request.url))
    page.goto((site / "theory/flow-map.html").as_uri())
    formulas = "[...document.querySelectorAll('math')]"
    heights = page.evaluate(f"{formulas}.map(m => m.getBoundingClientRect().height)")
    width = page.evaluate("document.documentElement.scrollWidth")
    lowered = page.evaluate(
        "[...document.querySelectorAll('msub')].map(m => [...m.children].map("
        "c => c.getBoundingClientRect().top)).map(([base, index]) => index - base)"
    )
    page.close()
    assert min(heights) > 5
    assert min(lowered) > 2, "a subscript stands beside its letter instead of below it"
    assert max(heights) > 30, "no fraction is drawn"
    assert width <= 390, "the page scrolls sideways"
    assert not errors
    assert all(address.startswith("file:") or address.startswith("data:") for address in requests)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name_of)
@pytest.mark.filterwarnings("ignore")  # models of a few steps
def test_notebooks_run(notebook, tmp_path, monkeypatch):
    """At toy size: the cell of parameters is followed by smaller ones."""
    pytest.importorskip("rdkit")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    toy = "\n".join(f"{name} = {value}" for name, value in TOY_STEPS.items())
    code = [
        f"{cell.source}\n{toy}" if "parameters" in cell.metadata.get("tags", []) else cell.source
        for cell in code_cells(notebook)
    ]
    assert any(toy in source for source in code)
    run(code)


def code_cells(notebook):
    content = nbformat.read(notebook, as_version=4)
    return [cell for cell in content.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name_of)
def test_notebooks_keep_their_outputs(notebook):
    code = code_cells(notebook)
    assert notebook.stat().st_size < LARGEST_NOTEBOOK
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    kinds = [output.output_type for cell in code for output in cell.outputs]
    assert "error" not in kinds
    assert len(kinds) >= 5
