"""The folder of a web page: what it contains, what it replaces and what it refuses."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from discrete_meanflow import OneStepModel
from discrete_meanflow.errors import InputError
from discrete_meanflow.web import runtime as runtimes, site as sites
from discrete_meanflow.web.site_folder import MARKER
from own_records import FILES
from pages import random_run, write_package
from test_cli import in_process

GRAPH = b"a graph"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return random_run(tmp_path_factory.mktemp("run") / "run", "lines")


@pytest.fixture
def package(tmp_path):
    return write_package(tmp_path / "package")


@pytest.fixture
def quick(monkeypatch):
    """The graph is not the subject of these tests, and takes seconds."""

    def write_graph(kernel, config, path):
        path.write_bytes(GRAPH)
        return 0.0

    monkeypatch.setattr(sites, "export", write_graph)


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("kind", FILES)
def test_page_describes_the_records_of_each_kind(kind, tmp_path, package, quick):
    model = random_run(tmp_path / "run", kind)
    site = sites.export_site(model, tmp_path / "new" / "site", package)
    files = contents(tmp_path / "new" / "site")
    assert {"index.html", "app.js", "style.css", "NOTICE.txt", "onnxruntime/ort.wasm"} <= set(files)
    assert site.size == sum(map(len, files.values())) - len(files[MARKER])
    assert site.graph_size == len(GRAPH)
    codec, page = model.config.codec, json.loads(files["model.json"])
    assert page["name"] == kind
    assert (page["length"], page["vocabulary"]) == (codec.length, codec.vocabulary)
    assert {name: page[name] for name in codec.layout.describe()} == codec.layout.describe()
    assert not page["subwords"]


def test_page_describes_classes(tmp_path, package, quick):
    model = random_run(tmp_path / "run", "array", classes=5)
    sites.export_site(model, tmp_path / "site", package)
    page = json.loads((tmp_path / "site" / "model.json").read_text())
    assert page["classes"] == list(model.config.codec.class_names)
    assert page["class positions"] == model.config.codec.class_positions == [6, 7]


@pytest.mark.parametrize("state", ["new", "empty", "earlier", "link"])
def test_page_replaces_nothing_or_its_earlier_version(state, model, tmp_path, package, quick):
    folder = tmp_path / "site"
    if state == "empty":
        folder.mkdir()
    if state == "earlier":
        sites.export_site(model, folder, package)
        (folder / "style.css").unlink()  # what is missing is not lost
    if state == "link":
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to("elsewhere")
    sites.export_site(model, folder, package)
    assert contents(folder)["model.onnx"] == GRAPH
    assert "style.css" in contents(folder)
    assert folder.is_symlink() == (state == "link")


def foreign(folder, case):
    """Make a file in the folder that no export wrote; return its name."""
    if case == "edited":
        (folder / "style.css").write_text("h1 { color: green }")
        return "style.css"
    name = {"added": "CNAME", "inside": "onnxruntime/mine", "link": "mine"}[case]
    if case == "link":
        (folder / name).symlink_to(folder.parent)
    else:
        (folder / name).write_text("mine")
    return name


@pytest.mark.parametrize("case", ["edited", "added", "inside", "link"])
def test_page_does_not_replace_foreign_files(case, model, tmp_path, package, quick):
    folder = tmp_path / "site"
    sites.export_site(model, folder, package)
    name = foreign(folder, case)
    before = contents(folder)
    with pytest.raises(InputError, match=f"such as {name}; choose another folder"):
        sites.export_site(model, folder, package)
    assert contents(folder) == before


@pytest.mark.parametrize("case", ["file", "foreign", "current"])
def test_page_needs_a_folder_of_its_own(case, model, tmp_path, package, quick, monkeypatch):
    folder = tmp_path / "site"
    if case == "file":
        folder.write_text("mine")
    else:
        folder.mkdir()
    if case == "foreign":
        (folder / "index.html").write_text("mine")
    if case == "current":
        monkeypatch.chdir(folder)
        folder = Path(".")
    message = {"file": "is not a folder", "foreign": "did not write, such as index.html",
               "current": "contains the current folder"}[case]  # fmt: skip
    before = contents(tmp_path)
    with pytest.raises(InputError, match=message):
        sites.export_site(model, folder, package)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InputError("bad"), OSError(28, "full")])
def test_failed_export_changes_nothing(error, model, tmp_path, package, quick, monkeypatch):
    folder = tmp_path / "site"
    sites.export_site(model, folder, package)
    before = contents(tmp_path)

    def fail(kernel, config, path):
        path.write_bytes(GRAPH[:3])
        raise error

    monkeypatch.setattr(sites, "export", fail)
    with pytest.raises(InputError if isinstance(error, OSError) else type(error)):
        sites.export_site(model, folder, package)
    assert contents(tmp_path) == before


def test_interrupted_replacement_restores_the_folder(model, tmp_path, package, quick, monkeypatch):
    folder = tmp_path / "site"
    sites.export_site(model, folder, package)
    before, rename = contents(tmp_path), Path.rename

    def interrupted(self, target):
        if self.name == "new":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sites.export_site(model, folder, package)
    assert contents(tmp_path) == before


def bad_package(folder, case):
    """Damage a package; return what the error says."""
    if case == "missing":
        shutil.rmtree(folder)
        return "is not a folder; npm install onnxruntime-web, or correct --runtime"
    if case == "other":
        (folder / "package.json").write_text('{"name": "left-pad", "version": "1.22.0"}')
        return "is not the npm package onnxruntime-web"
    if case == "old":
        (folder / "package.json").write_text('{"name": "onnxruntime-web", "version": "1.9.1"}')
        return "has onnxruntime-web 1.9.1, the page needs 1.20 or newer"
    (folder / "dist" / "ort-wasm-simd-threaded.wasm").unlink()
    return "ort-wasm-simd-threaded.wasm does not exist; npm install onnxruntime-web again"


@pytest.mark.parametrize("case", ["missing", "other", "old", "incomplete"])
def test_bad_runtime_is_one_line(case, package, model, tmp_path, monkeypatch, capsys):
    message = bad_package(package, case)
    words = ("export", model.folder, "--web", tmp_path / "site", "--runtime", package)
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert (code, err.count("\n")) == (2, 1)
    assert re.search(message, err)
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("place", ["here", "path", "global", "nowhere"])
def test_runtime_is_found_where_npm_installs(place, tmp_path, monkeypatch):
    """For this folder, then in NODE_PATH, then for all users."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NODE_PATH", raising=False)
    monkeypatch.setattr(runtimes.shutil, "which", lambda name: None)
    if place == "nowhere":
        with pytest.raises(InputError, match=r"npm install onnxruntime-web, or .* --runtime"):
            runtimes.find_runtime()
        return
    folder = Path("node_modules") if place == "here" else tmp_path / "elsewhere"
    write_package(folder / "onnxruntime-web", "2.0.0-dev")
    if place == "path":
        monkeypatch.setenv("NODE_PATH", os.pathsep.join(["", "/nowhere", str(folder)]))
    if place == "global":
        npm = tmp_path / "npm"
        npm.write_text(f"#!/bin/sh\n[ \"$*\" = 'root -g' ] && echo {folder}\n")
        npm.chmod(0o755)
        monkeypatch.setattr(runtimes.shutil, "which", lambda name: str(npm))
    assert runtimes.find_runtime().version == "2.0.0-dev"


@pytest.mark.parametrize(
    ("words", "message"),
    [((), "needs --onnx FILE, --web FOLDER or both"), (("--runtime", "x"), "add --web FOLDER")],
)
def test_export_needs_an_output(words, message, model, monkeypatch, capsys):
    code, _, err = in_process(monkeypatch, capsys, "export", model.folder, *words)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err


def test_export_without_onnx_names_the_extra(model, tmp_path, package, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnx", None)
    words = ("export", model.folder, "--web", tmp_path / "site", "--runtime", package)
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert (code, err.count("\n")) == (2, 1)
    assert "discrete-meanflow[onnx]" in err
    assert not (tmp_path / "site").exists()


def test_graph_and_page_can_be_written_together(
    model, tmp_path, package, quick, monkeypatch, capsys
):
    monkeypatch.setattr(OneStepModel, "export", lambda self, path: path.write_bytes(GRAPH))
    words = ("--onnx", tmp_path / "graph.onnx", "--web", tmp_path / "site", "--runtime", package)
    code, out, err = in_process(monkeypatch, capsys, "export", model.folder, *words)
    assert (code, out) == (0, "")
    assert err.count("written: ") == 2
    assert (tmp_path / "graph.onnx").read_bytes() == GRAPH
    assert (tmp_path / "site" / "model.onnx").read_bytes() == GRAPH
