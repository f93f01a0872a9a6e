"""Cells with several stages resume, and exact posteriors compose where they should."""

import json
import shutil

import pytest

from discrete_meanflow.ctmc import ring
from discrete_meanflow.data import BigramChain, IndependentCategorical
from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.objective import PosteriorRegression
from discrete_meanflow.process import Structured
from discrete_meanflow.training import FlowMapDistillation, Recipe
from dmf_reproduction.engine.experiment import Cell, Scale
from dmf_reproduction.engine.spec import RunSpec
from dmf_reproduction.engine.train_cell import train_cell
from dmf_reproduction.experiments.structured_noise import defect, exact_kernel
from laws.exact_flow import twins_problem


def twins_cell(recipe, *stages):
    """A cell whose measurement is the sum of its weights."""
    return Cell(
        "twins", twins_problem(PosteriorRegression()), recipe, lambda kernels: {},
        lambda kernel, seed: {"sum": sum(p.sum().item() for p in kernel.parameters())}, stages,
    )  # fmt: skip


def test_stages_resume_without_repeating_finished_pairs(tmp_path, monkeypatch):
    """The teacher, a student, and a student of the student; interrupted in the last stage."""
    made, make = [], FlowMapDistillation.teacher_pairs
    monkeypatch.setattr(
        FlowMapDistillation,
        "teacher_pairs",
        lambda self, *arguments: made.append(self.pairs) or make(self, *arguments),
    )
    recipe = Recipe(20, batch=8, block=10)
    stages = tuple(FlowMapDistillation(pairs, 2, recipe) for pairs in (20, 24))
    cell = twins_cell(recipe, *stages)
    assert (cell.iterations, len(cell.describe()["then"])) == (60, 2)

    def trained(folder, stop):
        spec, events = RunSpec("joint", (0,), "cpu", Scale.toy, folder), []
        (folder / "parts").mkdir(parents=True)
        if stop:
            with pytest.raises(Interrupted):
                train_cell(spec, cell, events.append, lambda: len(events) == 5)
        train_cell(spec, cell, events.append, lambda: False)
        assert [event.iteration for event in events] == [10, 20, 30, 40, 50, 60]
        part = json.loads(spec.part("twins", ".json").read_text())
        return part["measurements"], part["curve"]["loss"]

    assert trained(tmp_path / "whole", False) == trained(tmp_path / "cut", True)
    assert made == [20, 24, *(20, 24, 24)]


def test_a_further_stage_continues_from_finished_ones(tmp_path):
    """In its own folder, with their checkpoints; an earlier stage must be the same."""
    recipe = Recipe(4, batch=8, block=2)
    first, second, other = (FlowMapDistillation(n, 2, recipe) for n in (20, 30, 40))

    def iterations(folder, *stages):
        spec, events = RunSpec("joint", (0,), "cpu", Scale.toy, folder), []
        (folder / "parts").mkdir(parents=True, exist_ok=True)
        train_cell(spec, twins_cell(recipe, *stages), events.append, lambda: False)
        measured = json.loads(spec.part("twins", ".json").read_text())["measurements"]
        return [event.iteration for event in events], measured

    whole = iterations(tmp_path / "whole", first, second)
    assert iterations(tmp_path / "a", first)[0] == [2, 4, 6, 8]
    for folder in ("b", "c"):
        (tmp_path / folder / "parts").mkdir(parents=True)
        for saved in (tmp_path / "a" / "parts").glob("*.safetensors"):
            shutil.copy(saved, tmp_path / folder / "parts")
    assert iterations(tmp_path / "b", first, second) == ([10, 12], whole[1])
    with pytest.raises(InputError, match="other settings"):
        iterations(tmp_path / "c", other, second)
    several = RunSpec("joint", (0, 1), "cpu", Scale.toy, tmp_path / "a")
    with pytest.raises(InputError, match="needs a single seed"):
        train_cell(several, twins_cell(recipe, first), lambda event: None, lambda: False)


@pytest.mark.parametrize(
    ("law", "composes"),
    [
        (IndependentCategorical.dirichlet(3, 3, 1.0), True),
        (BigramChain.dirichlet(3, 3, 1.0), False),
    ],
)
def test_exact_posteriors_compose_where_positions_are_independent(law, composes):
    gap = defect(exact_kernel(law, Structured(ring(3))), 3)
    assert gap < 1e-12 if composes else gap > 1e-3
