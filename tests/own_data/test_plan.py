"""Plans: what is trained on given data, on a given device, in a given time."""

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from rich import progress
from rich.console import Console

from discrete_meanflow import OneStepModel
from discrete_meanflow.cli import train as train_command
from discrete_meanflow.data import TokenArray
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.array_codec import ArrayCodec
from discrete_meanflow.io.from_python import dataset_from_python
from discrete_meanflow.io.labelled_codec import LabelledCodec
from discrete_meanflow.io.table.table_codec import TableCodec
from discrete_meanflow.model import (
    pacing,
    prepare as preparing,
    run_folder as run,
    sizing,
    train as training,
)
from discrete_meanflow.model.options import FitOptions
from discrete_meanflow.model.pace import (
    RESERVED_FRACTION,
    WITH_MATCHING,
    WITHOUT_MATCHING,
    Pace,
    PerPart,
)
from discrete_meanflow.model.pacing import plan_minutes, plan_steps
from discrete_meanflow.model.plan import Plan
from discrete_meanflow.model.sizing import choose_plan, default_size
from discrete_meanflow.run.progress import ProgressEvent
from discrete_meanflow.sampler import chunk_size
from discrete_meanflow.training import (
    Distributed,
    FlowMapDistillation,
    MatchingDistillation,
    Recipe,
    checkpoint,
)
from own_records import WORDS, prepared, stage_steps


def choose(codec, device, size, world_size=1, **options):
    return choose_plan(codec, device, size, FitOptions(**options), world_size)


def test_long_runs_are_compiled():
    codec = ArrayCodec((4,), 4)
    plan = choose(codec, "cpu", 1e4)
    compiled = [plan_steps(plan, codec, "cpu", n).compiled for n in (100, 5999, 6000)]
    assert compiled == [False, False, True]


FEW, MANY = sizing.MANY_RECORDS - 1, sizing.MANY_RECORDS


def test_small_states_get_a_small_network_and_large_batches_on_a_cpu():
    small, large = ArrayCodec((3,), 4), ArrayCodec((16,), 16)
    assert default_size(large, "cpu", 16 * FEW) == sizing.CPU_SIZE
    assert default_size(small, "cpu", 3 * FEW) == sizing.CPU_SIZE * 12 / sizing.SMALL_STATE
    plans = [choose(codec, "cpu", default_size(codec, "cpu", 10**4)) for codec in (small, large)]
    assert plans[0].width < plans[1].width
    assert plans[0].batch > plans[1].batch
    assert plans[0].ode_steps > plans[1].ode_steps
    assert choose(small, "cuda", 1e5).batch == choose(large, "cuda", 1e5).batch


def test_many_records_get_a_small_network_on_a_cpu():
    """Unless the state is large, whose first and last layer would be most of the network."""
    names, windows = ArrayCodec((15,), 27), ArrayCodec((64,), 27)
    few, many = (default_size(names, "cpu", 15 * n) for n in (FEW, MANY))
    assert few == sizing.CPU_SIZE
    assert many == pytest.approx(4.02e5, rel=0.01)
    assert choose(names, "cpu", many).batch > choose(names, "cpu", few).batch
    assert default_size(windows, "cpu", 64 * MANY) == sizing.CPU_SIZE


def test_tiny_states_have_muon_and_no_third_stage():
    tiny, small = ArrayCodec((8,), 4), ArrayCodec((15,), 27)
    kinds = [
        (plan.muon_ratio > 0, plan.matching_steps > 0)
        for plan in (
            choose(tiny, "cpu", 1e5), choose(tiny, "cpu", 1e5, matching="yes"),
            choose(small, "cpu", 1e5), choose(small, "cpu", 1e5, matching="no"),
        )
    ]  # fmt: skip
    assert kinds == [(True, False), (False, True), (False, True), (False, False)]


def test_small_data_gets_a_small_network_on_a_gpu():
    few = ArrayCodec((4,), 4)
    assert default_size(few, "cuda", 10**6) == 3e6
    # A symbol of a large alphabet carries as much as two letters.
    assert default_size(ArrayCodec((4,), 2**10), "cuda", 10**6) == 6e6
    wide = [[f"{i % 2**5}", f"w{i % 2**6}"] for i in range(2**6)]
    table = TableCodec.of(["a", "b"], wide)
    assert default_size(table, "cuda", 10**6) == pytest.approx(3.3e6)  # 5 and 6 bits
    assert default_size(few, "cuda", 10**9) == sizing.GPU_SIZE
    assert choose(few, "cuda", default_size(few, "cuda", 8)).parameters < 1e4


def test_steps_on_a_cpu_are_short():
    """States that are too large for an MLP get small networks and batches."""
    for codec in (ArrayCodec((28, 28), 256), ArrayCodec((64,), 300), ArrayCodec((2000,), 20)):
        plan = choose(codec, "cpu", default_size(codec, "cpu", 10**9))
        assert plan.heads
        assert 6 * plan.parameters * plan.batch * codec.length <= sizing.CPU_STEP
    names = ArrayCodec((15,), 27)
    plan = choose(names, "cpu", default_size(names, "cpu", 10**6))
    assert 1 < plan.block <= 2**24 / (4 * 15 * 27 * plan.batch)
    text = ArrayCodec((64,), 65)  # a window of characters
    assert not choose(text, "cpu", default_size(text, "cpu", 10**9)).heads


@pytest.mark.parametrize(("device", "room"), [("cpu", 2**29), ("cuda", 2**32)])
def test_teacher_pairs_fit_into_memory(device, room):
    codec = ArrayCodec((28, 28), 2)
    long = plan_steps(choose(codec, device, sizing.CPU_SIZE), codec, device, 10**6)
    paths = long.problem(codec, TokenArray(torch.zeros(2, 784, dtype=torch.uint8), 2)).paths
    pairs = FlowMapDistillation(4, 1, Recipe(1)).teacher_pairs(paths, long.kernel(codec), 0)
    stored = sum(tensor.nbytes for tensor in (pairs.starts, pairs.ends, pairs.observed)) / 4
    assert 0.99 * room < long.teacher_pairs * stored <= room


def test_fastest_trial_counts(monkeypatch):
    now, spent = [0.0], iter([50.0, 0.2, 0.1])
    monkeypatch.setattr(pacing, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(pacing, "FEWEST_TRIALS", 3)

    def work():
        now[0] += next(spent)

    assert pacing._fastest(work) == pytest.approx(0.1)


def test_few_slow_steps_are_timed(monkeypatch):
    """A block of one step first; more only if it is quick."""
    now = [0.0]
    monkeypatch.setattr(pacing, "time", SimpleNamespace(monotonic=lambda: now[0]))

    class Slow:
        recipe, seconds, steps = Recipe(1000, block=1), 4.0, 0

        def blocks(self):
            while True:
                self.steps += self.recipe.block
                now[0] += self.seconds * self.recipe.block
                yield

    slow = Slow()
    assert pacing._step_seconds(slow, 100) == pytest.approx(4.0)
    assert slow.steps == 1 + pacing.FEWEST_TRIALS
    quick = Slow()
    quick.seconds = 0.01
    assert pacing._step_seconds(quick, 100) == pytest.approx(0.01)
    assert quick.recipe.block == pacing.TRIAL_BLOCK


@pytest.mark.parametrize("matching", [True, False])
def test_plan_fills_the_minutes(matching, monkeypatch):
    """A second allows ten steps or a thousand pairs; timing takes ten seconds per stage."""
    _, dataset = dataset_from_python(WORDS)
    codec, data = dataset.codec, TokenArray(dataset.encoded(), dataset.codec.vocabulary)
    now = [0.0]
    monkeypatch.setattr(pacing, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def timed(trainer, most):
        now[0] += 10
        return 0.1

    monkeypatch.setattr(pacing, "_step_seconds", timed)
    monkeypatch.setattr(pacing, "_fastest", lambda work: pacing.TRIAL_PAIRS / 1000)
    chosen = choose(codec, "cpu", 1e4, batch=16, matching=["no", "yes"][matching])
    plan, pace = plan_minutes(chosen, codec, data, "cpu", 2.5)
    minutes = pace.expected(plan)
    teacher, student, third = (steps / 10 for steps in stage_steps(plan))
    parts = [teacher, plan.teacher_pairs / 1000, student, third]
    timing = 30 if matching else 20
    shares = WITH_MATCHING if matching else WITHOUT_MATCHING
    fractions = [shares.teacher, shares.pairs, shares.student, shares.matching]
    assert sum(fractions) == pytest.approx(1)
    assert (third > 0) == matching
    assert sum(parts) == pytest.approx(150 * (1 - RESERVED_FRACTION) - timing, abs=0.4)
    assert parts == pytest.approx([fraction * sum(parts) for fraction in fractions], abs=0.4)
    assert minutes == pytest.approx(2.5 * (1 - RESERVED_FRACTION), abs=0.01)
    few, pace = plan_minutes(chosen, codec, data, "cpu", 0.1)
    assert stage_steps(few) == (100, 100, 100 * matching)
    assert few.block == 5  # so that the steps can be revised
    assert pace.expected(few) == pytest.approx((timing + few.steps / 10 + 1) / 60)


def test_gpu_plan_has_whole_chunks_and_blocks(monkeypatch):
    """Chunks have the size of the trial, whose compiled code they share."""
    _, dataset = dataset_from_python(WORDS)
    codec, data = dataset.codec, TokenArray(dataset.encoded(), dataset.codec.vocabulary)
    trainer, tried = SimpleNamespace(kernels=lambda: [None]), []
    chosen = choose(codec, "cuda", 1e4, batch=16, matching="yes")
    chunk = chunk_size(codec.length, codec.vocabulary, chosen.network(codec))
    monkeypatch.setattr(pacing, "Trainer", lambda *_: trainer)
    monkeypatch.setattr(FlowMapDistillation, "problem", lambda self, *_: tried.append(self.pairs))
    monkeypatch.setattr(MatchingDistillation, "problem", lambda self, *_: None)

    def chunks(self, paths, kernel, seed, size, compiled):
        tried.append(size)
        yield

    monkeypatch.setattr(FlowMapDistillation, "chunks", chunks)
    monkeypatch.setattr(pacing, "_step_seconds", lambda trainer, most: 0.1)
    monkeypatch.setattr(pacing, "_fastest", lambda work: chunk / 500)
    plan, _ = plan_minutes(chosen, codec, data, "cuda", 30)
    assert tried == [chunk, chunk]
    assert plan.teacher_pairs > chunk
    assert plan.teacher_pairs % chunk == 0
    assert all(steps % plan.block == 0 and steps > 100 for steps in stage_steps(plan))


def test_transformer_has_minibatch_ot_and_muon():
    """With classes, which are observed as a rule, there is no minibatch OT; an MLP has neither.

    Nor is there with a third stage, whose formula holds for independent noise.
    """
    images, names = ArrayCodec((80, 80), 3), ArrayCodec((15,), 27)
    plans = {
        codec: choose(codec, "cpu", 1e4, matching="no")
        for codec in (images, LabelledCodec(images, ("a", "b")), names)
    }
    kinds = [(plan.heads > 0, plan.minibatch_ot, plan.muon_ratio) for plan in plans.values()]
    assert kinds == [(True, 1024, 4.0), (True, 0, 4.0), (False, 0, 0.0)]
    plan = plans[images]
    third = choose(images, "cpu", 1e4, matching="yes")
    assert (third.minibatch_ot, third.muon_ratio, third.matching_steps > 0) == (0, 4.0, True)
    assert {stage.recipe.muon_ratio for stage in third.stages} == {4.0}
    with pytest.raises(InputError, match="matching_steps needs minibatch_ot 0"):
        replace(third, minibatch_ot=8)
    process = plan.problem(images, TokenArray(torch.zeros(4, 6400, dtype=torch.long), 3)).process
    assert process.minibatch_ot == 1024


def test_plan_is_read_back_from_json(tmp_path):
    content = json.loads((prepared(tmp_path / "run") / "config.json").read_text())["plan"]
    assert Plan.from_json(content).describe() == content
    with pytest.raises(InputError, match="the plan lacks 'block'"):
        Plan.from_json({name: value for name, value in content.items() if name != "block"})


def test_folder_of_another_version_is_one_line(tmp_path):
    folder = prepared(tmp_path / "run")
    path, content = folder / "config.json", json.loads((folder / "config.json").read_text())
    for version, shown in (("discrete-meanflow run 1", "1"), (2, "2"), (None, "unknown")):
        path.write_text(json.dumps(content | {"format": version}))
        message = rf"was written by another version \(format {shown}, this is 6\); train again"
        with pytest.raises(InputError, match=message):
            run.read_config(folder)


def test_blocks_and_batches_fit_into_memory():
    """256 images of 784 pixels in 256 shades take 200 MB, so a block is short."""
    plan = choose(ArrayCodec((28, 28), 256), "cpu", sizing.CPU_SIZE)
    assert 4 * plan.batch * plan.block * 784 * 256 <= 2**28
    assert choose(ArrayCodec((4, 4), 16), "cuda", 1e4, matching="no").block == 100
    plan = choose(
        ArrayCodec((4, 4), 16), "cpu", 1e4, matching="yes"
    )  # the third stage draws noise twice
    assert 4 * 4 * plan.batch * plan.block * 16 * 16 <= 2**28
    for codec in (ArrayCodec((4, 4), 16), ArrayCodec((2000,), 20)):  # without attention and with
        plan = choose(codec, "cpu", default_size(codec, "cpu", 10**9))
        steps = 12 * plan.parameters * plan.batch * (codec.length if plan.heads else 1)
        assert plan.block == 1 or plan.block * steps <= sizing.CPU_BLOCK
    assert choose(ArrayCodec((4, 4), 16), "cpu", sizing.CPU_SIZE, world_size=3).batch % 3 == 0
    assert choose(ArrayCodec((4, 4), 16), "cpu", sizing.CPU_SIZE, accumulate=200).batch == 400
    with pytest.raises(InputError, match="are too many"):
        choose(ArrayCodec((100_000,), 10_000), "cpu", sizing.CPU_SIZE)
    with pytest.raises(InputError, match="a batch of 2 is too small for 2 ranks"):
        choose(ArrayCodec((4, 4), 16), "cpu", sizing.CPU_SIZE, world_size=2, batch=2)


@pytest.mark.parametrize("matching", [0, 30])
def test_work_grows_through_the_stages_and_the_teacher_pairs(matching):
    plan = choose(ArrayCodec((4,), 4), "cpu", 1e4)
    plan = replace(
        plan, teacher_steps=100, student_steps=50, teacher_pairs=3 * plan.batch,
        matching_steps=matching,
    )  # fmt: skip
    work = [plan.work_done(i, 0) for i in range(101)]
    work += [plan.work_done(100, fraction / 10) for fraction in range(1, 11)]
    work += [plan.work_done(100 + i, 1) for i in range(1, 51 + matching)]
    assert all(a < b for a, b in itertools.pairwise(work))
    # A forward pass is a third of a step. The third stage has the double batch.
    assert work[-1] == 1
    assert work[100] == pytest.approx(100 / (100 + plan.ode_steps + 50 + matching * 10 / 3))
    batch = plan.stages[0].recipe.batch
    assert (plan.distillation.recipe.batch, plan.matching.recipe.batch) == (batch, 2 * batch)


@pytest.mark.parametrize(
    ("iterations", "stages"),
    [(2, (1, 1, 0)), (3, (2, 1, 0)), (4, (2, 1, 1)), (10, (5, 3, 2)), (1000, (500, 250, 250))],
)
def test_iterations_are_divided_among_the_stages(iterations, stages):
    codec = ArrayCodec((4,), 4)
    plan = plan_steps(choose(codec, "cpu", 1e4, matching="yes"), codec, "cpu", iterations)
    assert stage_steps(plan) == stages
    assert [plan.stage_at(i) for i in range(1, 1 + plan.steps)] == [
        stage for stage, steps in enumerate(stages) for _ in range(steps)
    ]
    plan = plan_steps(choose(codec, "cpu", 1e4, matching="no"), codec, "cpu", iterations)
    assert stage_steps(plan) == (iterations - iterations // 2, iterations // 2, 0)


@pytest.mark.parametrize("before", [0, 40, 130, 220])
def test_bar_of_a_resumed_run_starts_where_it_stopped(before, tmp_path, monkeypatch):
    """Earlier steps do not count as speed. Teacher pairs are generated again for the student."""
    counts = {"teacher_steps": 100, "student_steps": 100, "matching_steps": 30}
    folder = prepared(tmp_path / "run", **counts)
    config = run.read_config(folder)
    stages = (min(before, 100), min(max(before - 100, 0), 100), max(before - 200, 0))
    done = {folder / name: steps for name, steps in zip(run.CHECKPOINTS, stages, strict=True)}
    monkeypatch.setattr(checkpoint, "iteration_in", done.get)
    seen = []
    monkeypatch.setattr(
        progress.Progress, "add_task",
        lambda self, *args, **task: seen.append((task["completed"], task["total"])),
    )  # fmt: skip
    monkeypatch.setattr(
        progress.Progress, "update", lambda self, task, **to: seen.append(to["completed"])
    )

    def train(folder, config, distributed, on_progress):
        def show(steps, pairs, loss=1.0):
            work = config.plan.work_done(steps, pairs)
            on_progress(ProgressEvent("run", steps, 230, loss, 1.0, work_done=work))

        for step in range(before + 10, 101, 10):
            show(step, 0)
        for pairs in (0.25, 0.5, 0.75, 1.0):
            show(max(before, 100), pairs, None)
        for step in range(max(before, 100) + 10, 231, 10):
            show(step, 1)

    monkeypatch.setattr(training, "train", train)
    train_command._train(folder, config, Console(force_terminal=True), Distributed())
    (start, total), *values = seen
    assert start == int(total * config.plan.work_done(before, 0))
    steps = [b - a for a, b in itertools.pairwise([start, *values])]
    assert min(steps) > 0
    assert max(steps) < total / 4
    assert values[-1] == pytest.approx(total)


def test_fit_warns_if_the_fewest_steps_take_longer(tmp_path, monkeypatch):
    pace = Pace(4.0, 180.0, PerPart(0, 0, 0, 0), 1, 1, False)  # 180 seconds for planning
    monkeypatch.setattr(preparing, "plan_minutes", lambda plan, *args: (plan, pace))
    monkeypatch.setattr(OneStepModel, "_train", lambda *args: None)
    with pytest.warns(UserWarning, match="enough for only 1 teacher steps, 1 student steps, 1 m"):
        OneStepModel.fit(WORDS, minutes=4, out=tmp_path / "few", size=1e4, matching="yes")
    with pytest.warns(UserWarning, match="fit: about 3.0 minutes instead of 2, for at least"):
        OneStepModel.fit(["ab", "ba", "aa", "bb", "b"], minutes=2, out=tmp_path / "run")
