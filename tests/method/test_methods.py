"""Laws of all methods: each trains on a file's records, samples, conditions and resumes."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
import torch

from discrete_meanflow import OneStepModel
from discrete_meanflow.data import TokenArray
from discrete_meanflow.errors import InputError
from discrete_meanflow.explore.run_view import RunView
from discrete_meanflow.method import METHODS, find_method, registry
from discrete_meanflow.model import pacing
from discrete_meanflow.model.likelihood import check_likelihood, likelihood, likelihood_line
from discrete_meanflow.model.options import FitOptions, MethodName
from discrete_meanflow.model.run_folder import CONFIG
from discrete_meanflow.model.sizing import choose_plan
from discrete_meanflow.network import FlatMLP
from own_records import ROWS, WORDS, train_by_command
from test_cli import in_process

ROOT = Path(__file__).parents[2]
ARXIV = re.compile(r"\d{4}\.\d{5}")
PAD = "_"  # a poor run may generate it inside of a record
MANY = [name for name, method in METHODS.items() if not method.distilled]


@pytest.fixture(scope="module", params=METHODS)
def model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / request.param
    return OneStepModel.fit(
        WORDS, iterations=12, size=1e4, batch=16, method=request.param, out=folder, device="cpu"
    )


def test_options_list_all_methods():
    assert set(get_args(MethodName)) == set(METHODS)
    assert FitOptions().method in METHODS


@pytest.mark.parametrize("system", registry.SYSTEMS, ids=lambda system: system.__name__)
def test_every_system_has_a_file_with_formula_and_citation(system):
    text = system.__doc__
    assert re.search(r"arXiv:\d{4}\.\d{5}|et al\. \d{4}", text)
    assert "``" in text
    assert "Sampler:" in text
    cited = {paper for m in system.METHODS.values() for paper in ARXIV.findall(m.summary)}
    assert cited <= set(ARXIV.findall(text))


def test_the_table_of_methods_is_true():
    """Its steps, likelihoods and papers are those of the code."""
    rows = {}
    for line in (ROOT / "docs/choosing.md").read_text().split("## The methods")[1].splitlines():
        if line.startswith("| `"):
            cells = line.strip("| ").split(" | ")
            rows |= dict.fromkeys(re.findall(r"`([\w-]+)`", cells[0]), cells)
    assert set(rows) == set(METHODS)
    for name, method in METHODS.items():
        *_, steps, bits, _ = rows[name]
        of_many = "bound of many steps" if method.one_step else "bound"
        assert steps == (str(method.steps) if method.steps else "one per position")
        assert bits == ("exact" if method.causal else of_many if method.bound else "none")
        assert set(ARXIV.findall(method.summary)) <= set(ARXIV.findall(str(rows[name])))


def test_records_are_those_of_the_seed(model):
    records = model.sample(7, seed=1)
    assert len(records) == 7
    assert records == model.sample(7, seed=1)
    assert records != model.sample(7, seed=2) or len(set(records)) == 1
    assert set("".join(records)) <= set("".join(WORDS) + PAD)


def test_a_loaded_run_gives_the_same_records(model):
    assert OneStepModel.load(model.folder, "cpu").sample(5, seed=3) == model.sample(5, seed=3)
    assert json.loads((model.folder / CONFIG).read_text())["plan"]["method"] in METHODS


def test_known_beginnings_stay(model):
    records = model.sample(6, infill="bf??", seed=0)
    assert all(record.startswith("bf") for record in records)


def test_tables_have_levels_of_their_columns(model):
    """Noise may add symbols and the network knows those of all columns; neither is generated."""
    name = model.config.plan.method
    if model.config.plan.system.same_symbols:
        with pytest.raises(InputError, match="needs the same symbols in all positions"):
            OneStepModel.fit(ROWS, iterations=12, method=name, device="cpu")
        return
    table = OneStepModel.fit(ROWS, iterations=12, size=1e4, batch=16, method=name, device="cpu")
    for row in table.sample(20, seed=0):
        assert all(value in {r[i] for r in ROWS} for i, value in enumerate(row))


@pytest.mark.parametrize("name", MANY)
def test_matching_belongs_to_the_default(name):
    with pytest.raises(InputError, match="matching is a stage of method one-step"):
        FitOptions(method=name, matching="yes")


def test_unknown_methods_are_refused(tmp_path, monkeypatch, capsys):
    with pytest.raises(InputError, match="unknown method 'best'; known: one-step, flow-matching"):
        FitOptions(method="best")
    with pytest.raises(InputError, match="unknown method 'best'; known: one-step"):
        find_method("best")
    path = tmp_path / "words.txt"
    path.write_text("\n".join(WORDS))
    code, _, err = in_process(monkeypatch, capsys, "train", path, "--method", "best")
    assert code == 2
    assert "one-step" in err
    assert len(err.splitlines()) == 1


def test_a_run_names_its_method(tmp_path, monkeypatch, capsys):
    path, folder = tmp_path / "words.txt", tmp_path / "run"
    path.write_text("\n".join(WORDS))
    train_by_command(monkeypatch, capsys, path, folder, "--method", "flow-matching")
    assert "--method flow-matching" in json.loads((folder / "data.json").read_text())["command"]


@pytest.mark.parametrize("field", ["student_steps", "teacher_pairs", "matching_steps"])
def test_damaged_plans_are_refused(field, model, tmp_path):
    if model.config.plan.system.distilled:
        pytest.skip("it has all stages")
    model.save(tmp_path / "run")
    content = json.loads((tmp_path / "run" / CONFIG).read_text())
    content["plan"][field] = 5
    (tmp_path / "run" / CONFIG).write_text(json.dumps(content))
    with pytest.raises(InputError, match="plan: method"):
        OneStepModel.load(tmp_path / "run", "cpu")


def test_only_maps_from_noise_have_a_graph_and_are_refined(model, tmp_path):
    if model.config.plan.system.one_step:
        assert len(model.sample(3, 2, seed=0, refine=True)) == 3
        return
    with pytest.raises(InputError, match=r"has no step from noise to .*; train one-step"):
        model.export(tmp_path / "graph.onnx")
    with pytest.raises(InputError, match=r"refine: method .* has no step.* train one-step, psd"):
        model.sample(3, 2, refine=True)
    model.save(tmp_path / "run")
    with pytest.raises(InputError, match=r"has no step from noise .* use dmf sample"):
        RunView(tmp_path / "run")


def test_guidance_is_refused_where_there_is_none(model):
    if model.config.plan.system.guided:
        assert len(model.sample(3, 2, seed=0, infill="bf??", guidance=2.0)) == 3
        return
    with pytest.raises(InputError, match=r"guidance: method .* has none.* train one-step, psd"):
        model.sample(3, infill="bf??", guidance=2.0)


def test_bits_are_finite_or_explained(model):
    content = likelihood(model.kernel, model.config, model.config.codec.encode(WORDS))
    assert check_likelihood(json.loads(json.dumps(content))) == content
    line = likelihood_line(content)
    assert line.startswith("bits per symbol: ")
    no_bound = model.config.plan.system.bound is None
    assert ("no tractable likelihood" in line) == (no_bound or model.config.plan.system.one_step)
    assert ("bits per symbol" in content) == (model.config.plan.system.bound is not None)


def test_groups_of_particles_fit_into_batches(tmp_path):
    with pytest.raises(InputError, match="method imm takes groups of 4 records"):
        OneStepModel.fit(WORDS, iterations=4, batch=6, method="imm", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_no_mask_is_left():
    """The paper's alpha(r, 1) is below one by 1e-6, which a million positions would show."""
    method, vocabulary = METHODS["kernel-ce"], 3
    process = method.process(vocabulary)
    kernel = method.kernel(process, FlatMLP(process.states, 4, 8, 1))
    x, g = process.source((500_000, 4), torch.Generator().manual_seed(0)), torch.Generator()
    logits = torch.zeros(*x.shape, process.states).log_softmax(-1)
    logits[..., process.token] = -torch.inf
    r = torch.zeros(1, 1)
    assert not (kernel.transport(x, logits, r, r + 1, g.manual_seed(0)) == process.token).any()


def test_steps_of_all_phases_are_timed(monkeypatch):
    """Self-distillation costs more in its later phase."""
    timed = []

    def pace(trainer, most):
        timed.append(type(trainer.problem.objective).__name__)
        return {"PosteriorRegression": 1.0, "Weighted": 3.0}[timed[-1]]

    monkeypatch.setattr(pacing, "_step_seconds", pace)
    codec = OneStepModel.fit(WORDS, iterations=4, size=1e4, device="cpu").config.codec
    options = FitOptions(method="psd", batch=16)
    plan = choose_plan(codec, "cpu", 1e4, options)
    data = TokenArray(codec.encode(WORDS), codec.vocabulary)
    plan, _ = pacing.plan_minutes(plan, codec, data, "cpu", 20.0)
    assert timed == ["PosteriorRegression", "Weighted"]
    mean = 0.4 * 1.0 + 0.6 * 3.0
    assert plan.teacher_steps == pytest.approx(0.95 * 20 * 60 / mean, rel=0.02)
