"""Runs that are trained, and some evaluated, once for all tests of reports."""

import numpy
import pandas
import pytest

from discrete_meanflow import OneStepModel
from discrete_meanflow.metric import forest
from own_records import ROWS, WORDS, run_command

SMALL = {"iterations": 12, "size": 1e4, "batch": 16, "device": "cpu"}


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """``words``, which has all three stages, ``images`` and ``table`` are evaluated."""
    folder = tmp_path_factory.mktemp("reports") / "runs"
    g, names = numpy.random.default_rng(0), ("number", "<b>level", "hole", "always 'one'")
    numbers = g.normal(size=200).round(3)
    cells = [[x, "<i>" if x > 0 else "&", None if abs(x) > 1 else x, "1"] for x in numbers.tolist()]
    frame = pandas.DataFrame([dict(zip(names, row, strict=True)) for row in cells])
    images = numpy.random.default_rng(0).integers(0, 4, (60, 3, 5))
    rows = [dict(zip(("colour", "letter", "k"), row, strict=True)) for row in ROWS]
    molecules = ["C" * n + "O" * (n % 3) for n in range(1, 40)]
    OneStepModel.fit(WORDS, out=folder / "words", matching="yes", held_out=16, **SMALL)
    OneStepModel.fit([list(row.values()) for row in rows], out=folder / "rows", **SMALL)
    OneStepModel.fit(images, out=folder / "images", labels=["<a>", "b"] * 30, held_out=16, **SMALL)
    OneStepModel.fit(frame, out=folder / "table", held_out=80, **SMALL)
    OneStepModel.fit(molecules, out=folder / "molecules", kind="smiles", **SMALL)
    OneStepModel.fit(images[:, :, 0], out=folder / "lists", **SMALL)
    grow = forest.random_forest
    with pytest.MonkeyPatch.context() as patch:  # few trees, whose quality does not matter
        patch.setattr(forest, "random_forest", lambda seed, *_: grow(seed, 5, None))
        for name, n, steps in (("words", 8, (1, 4)), ("images", 8, (1,)), ("table", 40, (1, 4))):
            assert not run_command("evaluate", folder / name, "-n", n, "--steps", *steps)
    return folder
