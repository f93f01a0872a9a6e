"""The third stage of a run: distribution matching."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from discrete_meanflow import OneStepModel
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.array_codec import ArrayCodec
from discrete_meanflow.io.kinds import KINDS
from discrete_meanflow.kernel import ExactPosterior, FlowMapKernel
from discrete_meanflow.model import run_folder as run
from discrete_meanflow.model.options import FitOptions
from discrete_meanflow.model.plan import Plan
from discrete_meanflow.model.run_folder import CHECKPOINTS, Config
from discrete_meanflow.model.sizing import choose_plan
from discrete_meanflow.model.training_record import composition_residual, divergence_note
from discrete_meanflow.objective import DistributionMatching
from discrete_meanflow.training import checkpoint, resumable
from laws.exact_flow import LAW, PROCESS, ExactFlow
from own_records import WORDS, prepared, stage_steps, train_by_command, train_run

STAGES = {"teacher_steps": 20, "student_steps": 20, "matching_steps": 30, "block": 10}


def iterations(folder):
    return [checkpoint.iteration_in(folder / name) for name in CHECKPOINTS]


def test_run_has_three_stages_and_records_them(tmp_path):
    folder = prepared(tmp_path / "run", **STAGES)
    seen = []
    train_run(folder, lambda event: seen.append((event.iteration, event.stage)))
    assert iterations(folder) == [20, 20, 30]
    assert list(dict.fromkeys(stage for _, stage in seen)) == ["teacher", "student", "matching"]
    assert [i for i, stage in seen if stage == "matching"] == [50, 60, 70]
    record = json.loads((folder / run.TRAINING).read_text())
    assert {name: record[name] for name in STAGES if name != "block"}.items() <= STAGES.items()
    residual = record["composition residual"]
    assert residual.keys() == {"before matching", "after matching"}
    assert all(0 <= value <= 1 for value in residual.values())
    assert record["teacher pairs"].keys() == {"copies", "returned", "noise"}
    assert record["teacher pairs"]["noise"]["pairs"] > 0
    parameters = dict(OneStepModel.load(folder, "cpu").kernel.named_parameters())
    assert not any(name.startswith("fake.") for name in parameters)


def test_classes_are_trained_in_three_stages(tmp_path):
    data = [word + "xy"[i % 2] for i, word in enumerate(WORDS)]
    labels = [word[-1] for word in data]
    folder = tmp_path / "run"
    model = OneStepModel.fit(
        data, labels=labels, iterations=12, size=1e4, batch=16, matching="yes", out=folder,
        device="cpu",
    )  # fmt: skip
    assert iterations(folder) == [6, 3, 3]
    records, classes = model.sample(5, label="y", labels=True)
    assert (len(records), set(classes)) == (5, {"y"})


def test_no_matching_trains_two_stages(tmp_path, monkeypatch, capsys):
    path, folder = tmp_path / "words.txt", tmp_path / "run"
    path.write_text("\n".join(WORDS))
    model = train_by_command(monkeypatch, capsys, path, folder, "--matching", "no")
    assert stage_steps(model.config.plan) == (6, 6, 0)
    assert iterations(folder) == [6, 6, 0]
    assert not (folder / CHECKPOINTS[2]).exists()
    assert "--matching no" in json.loads((folder / run.CARD).read_text())["command"]
    record = json.loads((folder / run.TRAINING).read_text())
    assert record["matching_steps"] == 0
    assert "composition residual" not in record
    assert "teacher pairs" in record
    python = OneStepModel.fit(
        WORDS, iterations=12, size=1e4, batch=16, matching="no", out=tmp_path / "two", device="cpu"
    )
    assert python.config.plan == model.config.plan
    weights = [(tmp_path / name / run.WEIGHTS).read_bytes() for name in ("run", "two")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("factor", "at"),
    [(float("nan"), 0), (float("nan"), 2), (1e6, 2)],
    ids=["nan at first", "nan later", "exploding"],  # the first block sets the scale
)
def test_diverging_third_stage_keeps_the_second(factor, at, tmp_path, monkeypatch):
    monkeypatch.setattr(resumable, "SAVE_EVERY", 0.0)
    folder = prepared(tmp_path / "run", **STAGES | {"matching_steps": 50})
    forward, blocks = DistributionMatching.forward, []

    def spoilt(self, *args):
        loss = forward(self, *args)
        return loss * factor if len(blocks) > 4 + at else loss

    monkeypatch.setattr(DistributionMatching, "forward", spoilt)

    def listen(event):
        blocks.append(event.iteration)

    train_run(folder, listen)
    message = divergence_note(folder)
    assert "\n" not in message
    assert "the fake network of distribution matching diverged" in message
    kernel = OneStepModel.load(folder, "cpu").kernel
    for name, p in kernel.network.named_parameters():
        assert torch.equal(kernel.one_step.network.get_parameter(name), p)


def test_third_stage_that_diverges_at_once_keeps_the_second(tmp_path, monkeypatch):
    """The first block is compared with its first step: later blocks are better again."""
    matching = Plan.matching.fget
    spoilt = property(lambda plan: replace(matching(plan), fake_rate=1e5))
    monkeypatch.setattr(Plan, "matching", spoilt)
    folder = prepared(tmp_path / "run", **STAGES)
    seen = []
    train_run(folder, lambda event: seen.append(event.stage))
    assert "matching" not in seen
    assert "diverged" in divergence_note(folder)
    kernel = OneStepModel.load(folder, "cpu").kernel
    for name, p in kernel.network.named_parameters():
        assert torch.equal(kernel.one_step.network.get_parameter(name), p)


class Constant(nn.Module):
    """Logits that depend on nothing but the position."""

    def __init__(self):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor([[2.0, 0, 0], [0, 0, 2.0]]))

    def forward(self, x, r, t):
        return self.logits.expand(x.shape)


@pytest.fixture
def config():
    codec = ArrayCodec((2,), 3)
    return Config(
        KINDS["array"](), codec, choose_plan(codec, "cpu", 1e4, FitOptions(matching="yes"))
    )


def test_composition_residual_is_zero_for_a_flow_map(config):
    """A map that ignores its times is one; a diagonal alone, used for long steps, is none."""
    assert composition_residual(FlowMapKernel(Constant(), 3), config) == 0
    exact, diagonal = (
        FlowMapKernel(network, 3) for network in (ExactFlow(), ExactPosterior(LAW, PROCESS))
    )
    assert composition_residual(exact, config) < 0.01
    assert composition_residual(diagonal, config) > 0.05


def test_plan_refuses_matching_with_minibatch_ot(config):
    with pytest.raises(InputError, match="plan: matching_steps needs minibatch_ot 0"):
        replace(config.plan, minibatch_ot=8)
