"""What is trained on the data, the machine and the minutes at hand."""

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from rich import progress
from rich.console import Console

from discrete_meanflow import OneStepModel
from discrete_meanflow.cli.generate import _bar
from discrete_meanflow.data import TokenArray
from discrete_meanflow.data.array_codec import ArrayCodec
from discrete_meanflow.data.labelled_codec import LabelledCodec
from discrete_meanflow.data.table_codec import TableCodec
from discrete_meanflow.errors import InputError
from discrete_meanflow.model import plan as plans
from discrete_meanflow.model import prepare as prepare_module
from discrete_meanflow.model import run_folder as run
from discrete_meanflow.model.plan import COUPLE_STEPS, Plan, choose, fitted, sensible_size
from discrete_meanflow.model.prepare import dataset_of
from discrete_meanflow.sampler import chunk_size
from discrete_meanflow.training import FlowMapDistillation, Recipe, checkpoint
from own_records import WORDS, prepared


def test_many_steps_are_compiled_whoever_counts_them():
    codec = ArrayCodec((4,), 4)
    plan = choose(codec, "cpu", 1e4, 0, None)
    assert [plans.of_iterations(plan, codec, "cpu", n).compiled for n in (100, 5999, 6000)] == [
        0,
        0,
        1,
    ]


def test_small_data_get_a_small_network_where_there_is_time_to_learn_them_by_heart():
    few = ArrayCodec((4,), 4)
    assert sensible_size(few, "cpu", 10**6) == sensible_size(few, "cpu", 10**9) == plans.CPU_SIZE
    assert sensible_size(few, "cuda", 10**6) == 3e6
    assert (
        sensible_size(ArrayCodec((4,), 2**10), "cuda", 10**6) == 6e6
    )  # each says what two letters do
    wide = [[str(i), str(i % 2)] for i in range(2**10)]
    table = TableCodec.of(["a", "b"], wide)
    assert sensible_size(table, "cuda", 10**6) == pytest.approx(4.5e6)  # two letters, and one
    assert sensible_size(few, "cuda", 10**9) == plans.GPU_SIZE
    assert choose(few, "cuda", sensible_size(few, "cuda", 8), 0, None).parameters < 1e4


def test_a_step_of_a_cpu_is_short():
    """Where states are too large for one layer over all of them, networks and batches are small."""
    for codec in (ArrayCodec((28, 28), 256), ArrayCodec((64,), 300), ArrayCodec((2000,), 20)):
        plan = choose(codec, "cpu", sensible_size(codec, "cpu", 10**9), 0, None)
        assert plan.heads
        assert 6 * plan.parameters * plan.batch * codec.length <= plans.CPU_STEP
    text = ArrayCodec((64,), 65)  # a window of letters
    assert not choose(text, "cpu", sensible_size(text, "cpu", 10**9), 0, None).heads


@pytest.mark.parametrize(("device", "room"), [("cpu", 2**29), ("cuda", 2**32)])
def test_couples_fit_into_their_room(device, room):
    codec = ArrayCodec((28, 28), 2)
    long = plans.of_iterations(choose(codec, device, plans.CPU_SIZE, 0, None), codec, device, 10**6)
    some = FlowMapDistillation(4, 1, Recipe(1)).couples(
        long.problem(codec, TokenArray(torch.zeros(2, 784, dtype=torch.uint8), 2)).process,
        long.kernel(codec), 0,
    )  # fmt: skip
    stored = sum(each.nbytes for each in (some.starts, some.ends, some.held)) / 4
    assert 0.99 * room < long.couples * stored <= room


def test_of_several_tries_the_quickest_tells_the_pace(monkeypatch):
    now, spent = [0.0], iter([50.0, 0.2, 0.1])
    monkeypatch.setattr(plans, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(plans, "FEWEST_TRIES", 3)

    def work():
        now[0] += next(spent)

    assert plans._quickest(work) == pytest.approx(0.1)


def test_the_pace_of_slow_steps_is_told_by_few_of_them(monkeypatch):
    """A block of one to begin with; only where it is quick, of more."""
    now = [0.0]
    monkeypatch.setattr(plans, "time", SimpleNamespace(monotonic=lambda: now[0]))

    class Slow:
        recipe, seconds, steps = Recipe(1000, block=1), 4.0, 0

        def blocks(self):
            while True:
                self.steps += self.recipe.block
                now[0] += self.seconds * self.recipe.block
                yield

    slow = Slow()
    assert plans._pace(slow, 100) == pytest.approx(4.0)
    assert slow.steps == 1 + plans.FEWEST_TRIES
    quick = Slow()
    quick.seconds = 0.01
    assert plans._pace(quick, 100) == pytest.approx(0.01)
    assert quick.recipe.block == plans.BLOCK


def test_the_plan_fits_the_minutes(monkeypatch):
    """With a second for ten steps and for a thousand couples, the steps fill the time that is left
    after ten seconds for the pace of each stage."""
    _, dataset = dataset_of(WORDS)
    codec, data = dataset.codec, TokenArray(dataset.encoded(), dataset.codec.vocabulary)
    now = [0.0]
    monkeypatch.setattr(plans, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def pace(trainer, most):
        now[0] += 10
        return 0.1

    monkeypatch.setattr(plans, "_pace", pace)
    monkeypatch.setattr(plans, "_quickest", lambda work: plans.TRIED / 1000)
    chosen = choose(codec, "cpu", 1e4, 0, 16)
    plan, minutes = fitted(chosen, codec, data, "cpu", 2.5)
    shares = [plan.iterations / 10, plan.couples / 1000, plan.second / 10]
    assert sum(shares) == pytest.approx(150 * (1 - plans.RESERVED) - 20, abs=0.3)
    assert shares == pytest.approx([s * sum(shares) for s in plans.SHARES], abs=0.3)
    assert minutes == pytest.approx(2.5 * (1 - plans.RESERVED), abs=0.01)
    _, minutes = fitted(chosen, codec, data, "cpu", 0.1)
    assert minutes == pytest.approx((20 + 10 + 1 + 10) / 60)  # 100 steps of each


def test_a_gpu_has_couples_in_whole_lots_and_steps_in_whole_blocks(monkeypatch):
    """Lots are of the size of the trial, whose code they share."""
    _, dataset = dataset_of(WORDS)
    codec, data = dataset.codec, TokenArray(dataset.encoded(), dataset.codec.vocabulary)
    trainer, tried = SimpleNamespace(kernels=lambda: [None]), []
    chosen = choose(codec, "cuda", 1e4, 0, 16)
    lot = chunk_size(codec.length, codec.vocabulary, chosen.network(codec))
    monkeypatch.setattr(plans, "Trainer", lambda *_: trainer)
    monkeypatch.setattr(FlowMapDistillation, "problem", lambda self, *_: tried.append(self.count))

    def lots(self, process, kernel, seed, size, compiled):
        tried.append(size)
        yield

    monkeypatch.setattr(FlowMapDistillation, "lots", lots)
    monkeypatch.setattr(plans, "_pace", lambda trainer, most: 0.1)
    monkeypatch.setattr(plans, "_quickest", lambda work: lot / 500)
    plan, _ = fitted(chosen, codec, data, "cuda", 10)
    assert tried == [lot, lot]
    assert plan.couples > lot
    assert plan.couples % lot == 0
    assert plan.iterations % plan.block == plan.second % plan.block == 0
    assert min(plan.iterations, plan.second) > 100


def test_a_transformer_has_matched_noise_and_muon():
    """Of a class, which is known as a rule, noise is matched nowhere; an MLP has neither."""
    images, words = ArrayCodec((80, 80), 3), dataset_of(WORDS)[1].codec
    plans = {
        codec: choose(codec, "cpu", 1e4, 0, None)
        for codec in (images, LabelledCodec(images, ("a", "b")), words)
    }
    kinds = [(plan.heads > 0, plan.minibatch_ot, plan.muon) for plan in plans.values()]
    assert kinds == [(True, 1024, 4.0), (True, 0, 4.0), (False, 0, 0.0)]
    plan = plans[images]
    assert plan.first.muon == plan.coupling.recipe.muon_ratio == 4.0
    process = plan.problem(images, TokenArray(torch.zeros(4, 6400, dtype=torch.long), 3)).process
    assert process.minibatch_ot == 1024


def test_a_plan_of_before_is_the_plan_without_what_is_new(tmp_path):
    words = json.loads((prepared(tmp_path / "run") / "config.json").read_text())["plan"]
    assert not {"minibatch_ot", "muon"} & set(words)
    assert Plan.from_json(words).describe() == words
    with pytest.raises(InputError, match="block"):
        Plan.from_json({name: value for name, value in words.items() if name != "block"})


def test_many_symbols_are_drawn_a_few_at_a_time():
    """A step of 256 images of 784 pixels in 256 shades: 200 MB, and never a hundred of them."""
    plan = choose(ArrayCodec((28, 28), 256), "cpu", plans.CPU_SIZE, 0, None)
    assert 4 * plan.batch * plan.block * 784 * 256 <= 2**28
    assert choose(ArrayCodec((4, 4), 16), "cpu", 1e4, 0, None).block == 100
    for codec in (ArrayCodec((4, 4), 16), ArrayCodec((2000,), 20)):  # with attention and without
        plan = choose(codec, "cpu", sensible_size(codec, "cpu", 10**9), 0, None)
        steps = 12 * plan.parameters * plan.batch * (codec.length if plan.heads else 1)
        assert plan.block == 1 or plan.block * steps <= plans.CPU_BLOCK
    assert (
        choose(ArrayCodec((4, 4), 16), "cpu", plans.CPU_SIZE, 0, None, processes=3).batch % 6 == 0
    )
    assert (
        choose(ArrayCodec((4, 4), 16), "cpu", plans.CPU_SIZE, 0, None, accumulate=200).batch == 400
    )
    with pytest.raises(InputError, match="are too many"):
        choose(ArrayCodec((100_000,), 10_000), "cpu", plans.CPU_SIZE, 0, None)


def test_the_bar_goes_ahead_to_its_end_through_steps_couples_and_steps():
    plan = choose(ArrayCodec((4,), 4), "cpu", 1e4, 0, None)
    plan = replace(plan, iterations=100, second=50, couples=3 * plan.batch)
    trajectory = [plan.work(i, 0) for i in range(101)]
    trajectory += [plan.work(100, share / 10) for share in range(1, 11)]
    trajectory += [plan.work(100 + i, 1) for i in range(1, 51)]
    assert all(a < b for a, b in itertools.pairwise(trajectory))
    # A look without a gradient is a third of a step; the second stage's batch is twice as large.
    assert trajectory[-1] == pytest.approx(100 + COUPLE_STEPS + 2 * 50)
    assert plan.coupling.recipe.batch == 2 * plan.first.batch


@pytest.mark.parametrize("before", [0, 40, 130])
def test_the_bar_of_a_run_that_goes_on_moves_from_where_it_stopped(before, tmp_path, monkeypatch):
    """By what was left; couples are made anew for its second stage."""
    folder = prepared(tmp_path / "run", iterations=100, second=100)
    stages = (min(before, 100), max(before - 100, 0))
    done = {folder / name: steps for name, steps in zip(run.CHECKPOINTS, stages, strict=True)}
    monkeypatch.setattr(checkpoint, "iteration_in", done.get)
    seen = []
    monkeypatch.setattr(
        progress.Progress, "add_task",
        lambda self, *given, **at: seen.append((at["completed"], at["total"])),
    )  # fmt: skip
    monkeypatch.setattr(
        progress.Progress, "update", lambda self, task, **to: seen.append(to["completed"])
    )
    with _bar(Console(force_terminal=True), folder) as (show, on_couples):
        news = SimpleNamespace(loss=1.0, seconds=1.0, tokens_per_second=1.0)
        for step in range(before + 10, 101, 10):
            show(SimpleNamespace(**vars(news), iteration=step))
        for share in (0.25, 0.5, 0.75, 1.0):
            on_couples(share)
        for step in range(max(before, 100) + 10, 201, 10):
            show(SimpleNamespace(**vars(news), iteration=step))
    (start, total), *trajectory = seen
    assert start == before if before <= 100 else start > 100
    steps = [b - a for a, b in itertools.pairwise([start, *trajectory])]
    assert min(steps) > 0
    assert max(steps) < total / 4  # nothing that was done before is taken for pace
    assert trajectory[-1] == pytest.approx(total)


def test_fit_warns_where_few_steps_take_longer_than_its_minutes(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare_module, "fitted", lambda plan, *given: (plan, 3.0))
    monkeypatch.setattr(OneStepModel, "resume", lambda *given: None)
    with pytest.warns(
        UserWarning, match="fit takes 4 minutes, enough for 1 and 1 steps: these teach"
    ):
        OneStepModel.fit(WORDS, minutes=4, out=tmp_path / "few", size=1e4)
    with pytest.warns(UserWarning, match="fit takes about 3.0 minutes: fewer than"):
        OneStepModel.fit(["ab", "ba", "aa", "bb", "b"], minutes=2, out=tmp_path / "run")
