"""The npm package onnxruntime-web, which runs ONNX graphs in a browser."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from discrete_meanflow.errors import InputError
from discrete_meanflow.files import check_regular_file
from discrete_meanflow.run.json_files import read_json

PACKAGE = "onnxruntime-web"
OLDEST = (1, 20)  # of those that the page has been tested with
# The smallest build. On one thread it needs no cross-origin isolation headers. Its JavaScript is
# renamed from .mjs, which some web hosts do not serve as JavaScript.
FILES = {
    "ort.wasm.min.mjs": "ort.js",
    "ort-wasm-simd-threaded.mjs": "loader.js",
    "ort-wasm-simd-threaded.wasm": "ort.wasm",
}
NPM_SECONDS = 20


@dataclass(frozen=True)
class Runtime:
    """A checked folder of the package."""

    folder: Path
    version: str

    def copy(self, target: Path) -> None:
        """Copy the files that a page needs to a new folder."""
        target.mkdir()
        for name, new_name in FILES.items():
            shutil.copyfile(self.folder / "dist" / name, target / new_name)


def find_runtime(folder: Path | None = None) -> Runtime:
    """The package in a folder; by default, the first one that npm has installed.

    Args:
        folder: of the package, such as node_modules/onnxruntime-web.
    """
    if folder is not None:
        return _check(folder)
    installed = (modules / PACKAGE for modules in _module_folders())
    found = next((path for path in installed if path.is_dir()), None)
    if found is None:
        raise InputError(
            f"export --web needs {PACKAGE}: npm install {PACKAGE}, or name the folder of the "
            "package with --runtime"
        )
    return _check(found)


def _check(folder: Path) -> Runtime:
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; npm install {PACKAGE}, or correct --runtime")
    remedy = f"name the folder of the npm package {PACKAGE} with --runtime"
    package = read_json(folder / "package.json", remedy)
    if package.get("name") != PACKAGE:
        raise InputError(f"{folder} is not the npm package {PACKAGE}; npm install {PACKAGE}")
    version = str(package.get("version"))
    if _numbers(version) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise InputError(
            f"{folder} has {PACKAGE} {version}, the page needs {oldest} or newer; "
            f"npm install {PACKAGE}@latest"
        )
    for name in FILES:
        check_regular_file(folder / "dist" / name, f"npm install {PACKAGE} again")
    return Runtime(folder, version)


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor number; (0, 0) if the version has none."""
    parts = version.split(".")[:2]
    return tuple(int(part) if part.isdecimal() else 0 for part in parts)


def _module_folders() -> Iterator[Path]:
    """Where npm installs packages: for this folder, as the user says, and for all users."""
    yield Path("node_modules")
    yield from map(Path, filter(None, os.environ.get("NODE_PATH", "").split(os.pathsep)))
    npm = shutil.which("npm")
    if npm is not None:
        try:
            done = subprocess.run(
                [npm, "root", "-g"], capture_output=True, text=True, timeout=NPM_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired):
            return
        yield from map(Path, done.stdout.splitlines()[:1])
