"""What the README says is true: its example runs, its numbers are those of results/."""

import json
import re
from pathlib import Path

import pytest

import discrete_meanflow as dmf
from dmf_reproduction import catalog
from dmf_reproduction.engine.experiment import Scale
from dmf_reproduction.experiments.real_data import RealData
from dmf_reproduction.report import markdown

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_examples_work_when_pasted():
    own, chain, sequences, objectives = re.findall(r"```python\n(.*?)```", README, re.S)
    for code in (chain, sequences, own, objectives):
        assert len([line for line in code.splitlines() if line]) <= 8  # a few lines
    names: dict = {}
    exec(chain, names)
    assert (names["learned"] - names["exact"]).abs().max() < 0.05
    assert names["samples"].shape == names["x_0"].shape
    exec(sequences, names)
    assert names["samples"].shape == (1000, 16)
    assert dmf.marginal_tv(names["samples"], names["data"]) < 0.15
    exec(own, names)
    assert len(names["gen"].sample(3)) == 3
    exec(objectives, names)
    # What was measured: our estimator with pairs at t = r, the paper's with the paper's.
    assert names["ours"].times == dmf.MixedTimes(0.75, dmf.UniformGap(0.02), 0.0)
    assert names["paper"].times == dmf.UniformGap(0.02)


def test_the_parts_of_ones_own_work_as_written():
    text = (ROOT / "docs/extending.md").read_text()
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.S):
        assert len([line for line in code.splitlines() if line]) <= 18
        exec(code, names)
    assert names["samples"].shape == (100, 8)


def test_the_tables_are_made_from_the_results():
    assert markdown.readme_text(README, ROOT / "results") == README


def test_every_committed_result_names_its_command_and_machine():
    found = [*(ROOT / "results").glob("*/results.json"), *(ROOT / "results/bench").glob("*.json")]
    assert found
    for path in found:
        record = json.loads(path.read_text())
        assert all(record[key] for key in ("command", "device", "versions", "date")), path


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#:]+)\)", README))
def test_links_lead_somewhere(path):
    assert (ROOT / path).exists()


def test_the_tree_in_the_readme_is_the_tree():
    tree = README.split("```text\n")[1].split("```")[0]
    for line in tree.splitlines():
        name = line.strip().split()[0] if line.strip() else ""
        if name.endswith("/") and line.startswith("  "):
            assert (ROOT / "src/discrete_meanflow" / name).is_dir(), name


def recorded_recipes(name):
    """Of each cell of a record: what it was trained by, and what the code trains it by."""
    record = json.loads((ROOT / "results" / name / "results.json").read_text())["settings"]
    experiment = catalog.find(name, ROOT)
    if isinstance(experiment, RealData):  # whose files may not be here
        ours = {kind: (recipe, ()) for kind, recipe in experiment.recipes.items()}
        ours["soft"] = (experiment.recipes["soft"], experiment.couplings)
    else:
        ours = {cell.name: (cell.recipe, cell.then) for cell in experiment.cells(Scale.paper)}
    for cell, (recipe, then) in ours.items():
        yield record[cell]["recipe"], recipe.describe()
        if then:
            stages = record[cell]["then"]
            for recorded, stage in zip(
                stages if isinstance(stages, list) else [stages], then, strict=True
            ):
                yield recorded, stage.describe()


@pytest.mark.parametrize(
    "name", [name for name in catalog.EXPERIMENTS if (ROOT / "results" / name).exists()]
)
def test_records_are_of_what_the_code_does(name):
    """Older ones say less of a recipe, and nothing else; of couples by Euler's steps docs tell."""
    told = (ROOT / "docs/joint.md").read_text().split("Euler's steps:")[1].split(".")[0]
    for recorded, ours in recorded_recipes(name):
        assert recorded == {field: ours[field] for field in recorded}
        if "count" in recorded:
            assert recorded.get("order", 1) == ours["order"] or f"`{name}`" in told


@pytest.mark.parametrize(
    "path", sorted((ROOT / "results").glob("*/results.json")), ids=lambda p: p.parent.name
)
def test_recorded_claims_follow_from_what_was_measured(path):
    record = json.loads(path.read_text())
    experiment = catalog.find(record["experiment"], ROOT)
    found = experiment.claims(record["facts"], record["cells"])
    assert [claim.describe() for claim in found] == record["claims"]


def own(name):
    """The scores of a run on a user's file, one step and held-out records."""
    found = json.loads((ROOT / "results" / name / "evaluation.json").read_text())["scores"]
    return found["1 step"], found["held out"]


def test_names_of_ones_own_are_good_in_one_step():
    one, real = own("own-names")
    assert one["well-formed"] >= 0.95
    assert one["pair TV"] <= 1.7 * real["pair TV"]
    assert one["copies"] < 0.2


def test_a_table_of_ones_own_is_good_in_one_step():
    one, real = own("own-mushroom")
    assert one["pair TV"] <= 2 * real["pair TV"]
