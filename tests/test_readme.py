"""What the README says is true: its examples run, its links lead somewhere."""

import re
from pathlib import Path

import pytest

import discrete_meanflow as dmf

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


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#:]+)\)", README))
def test_links_lead_somewhere(path):
    assert (ROOT / path).exists()


def test_the_tree_in_the_readme_is_the_tree():
    tree = README.split("```text\n")[1].split("```")[0]
    for line in tree.splitlines():
        name = line.strip().split()[0] if line.strip() else ""
        if name.endswith("/") and line.startswith("  "):
            assert (ROOT / "src/discrete_meanflow" / name).is_dir(), name
