"""Runs that are trained once for all tests."""

import pytest

from own_records import FILES, run_command, write


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Train a tiny run of each kind with ``dmf train``."""
    folder = tmp_path_factory.mktemp("runs")
    for kind in FILES:
        (folder / "files").mkdir(exist_ok=True)
        path = write(folder / "files", kind)
        words = ["train", path, "--out", folder / kind, "--iterations", 20, "--size", 1e4,
                 "--batch", 16, "--device", "cpu"]  # fmt: skip
        words += ["--length", 16] if kind == "windows" else []
        assert not run_command(*words)
    return folder
