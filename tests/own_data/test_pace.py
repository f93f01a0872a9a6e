"""Runs end in time, whatever the speed of the machine does."""

import itertools
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings, strategies as st

from discrete_meanflow.data import BigramChain
from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.model import pace as pace_module, run_folder as run, train as training
from discrete_meanflow.model.pace import (
    FEWEST_STEPS,
    PACE,
    RESERVED_FRACTION,
    Pace,
    PerPart,
    Timekeeper,
)
from discrete_meanflow.model.plan import Plan
from discrete_meanflow.training import (
    Distributed,
    Recipe,
    Trainer,
    checkpoint,
    resumable,
    sequence_problem,
)
from own_records import prepared, train_run

TIMES = PerPart(0.1, 0.001, 0.1, 0.2)
PLAN = Plan(1, 1, 1, 16, 16, 1e-3, 0, False, 16, 1, 0, matching_steps=1)
PACE_10 = Pace(10, 5.0, TIMES, 1, 10**6, False)


class Clock:
    """Time that passes when a step is taken."""

    now = 0.0

    def monotonic(self):
        return self.now


def simulated(plan, pace, slowdown):
    """Seconds that a run takes if the machine is ``slowdown(seconds)`` times slower."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace_module, "time", clock)
        keeper = Timekeeper(pace, 0.0, Distributed())
        for stage, seconds in enumerate((TIMES.teacher, TIMES.student, TIMES.matching)):
            if stage == 1:
                clock.now += plan.teacher_pairs * TIMES.pairs * slowdown(clock.now)
            keeper.begin(plan, stage, 0.0)
            recipe = plan.stages[stage].recipe
            trainer = SimpleNamespace(iteration=0, recipe=recipe)
            while trainer.iteration < trainer.recipe.iterations:
                steps = min(recipe.block, trainer.recipe.iterations - trainer.iteration)
                clock.now += steps * seconds * slowdown(clock.now)
                trainer.iteration += steps
                trainer.recipe = replace(recipe, iterations=keeper.steps(trainer))
            plan = plan.with_steps(stage, trainer.iteration)
            if stage < 2:
                plan = keeper.remaining(plan, stage)
    return clock.now + pace.prepared, plan


@given(
    before=st.floats(0.1, 10),
    after=st.floats(0.3, 3),
    change=st.floats(0, 600),
    block=st.sampled_from([1, 7, 100]),
)
@settings(max_examples=40, deadline=None)
def test_run_ends_within_a_tenth_of_its_time(before, after, change, block):
    """Though the speed was measured at a wrong moment and changes once during the run."""
    plan = PACE_10.divided(PLAN, PACE_10.seconds - PACE_10.prepared)
    plan = replace(plan, block=min(block, min(stage.steps for stage in plan.stages) // 20))
    seconds, final = simulated(plan, PACE_10, lambda now: before if now < change else after)
    assert seconds == pytest.approx(PACE_10.seconds, rel=0.05)
    assert min(stage.steps for stage in final.stages) >= FEWEST_STEPS


@given(st.lists(st.integers(1, 60), max_size=4))
@settings(max_examples=25, deadline=None)
def test_revised_schedule_goes_on_from_its_place(lengths):
    """The learning rate never jumps or rises, and ends where it would have ended."""
    problem = sequence_problem(BigramChain.dirichlet(3, 2))
    trainer = Trainer(problem, Recipe(50, batch=4), [0])
    step, rates = 0, []

    def rate(i):
        return trainer.recipe.learning_rate_at(trainer.place(i))

    for length in lengths:
        step = min(step + 10, trainer.recipe.iterations - 1)
        rates += [rate(i) for i in range(len(rates), step)]
        before, trainer.iteration = rate(step), step
        trainer.revise(step + length)
        assert rate(step) == pytest.approx(before)
    last = trainer.recipe.iterations
    rates += [rate(i) for i in range(len(rates), last + 1)]
    assert len(rates) == last + 1
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(rates))
    assert rates[-1] == pytest.approx(Recipe(1).learning_rate_at(1))


def test_plan_without_revision_has_the_schedule_of_its_recipe():
    trainer = Trainer(sequence_problem(BigramChain.dirichlet(3, 2)), Recipe(77, batch=4), [0])
    assert [trainer.place(i) for i in range(78)] == list(range(78))


@pytest.fixture
def timed(tmp_path, monkeypatch):
    """A run of three seconds whose plan is far too short, and which may have few steps."""
    monkeypatch.setattr(pace_module, "FEWEST_STEPS", 10)
    folder = prepared(tmp_path / "run", block=2)
    Pace(0.05 / (1 - RESERVED_FRACTION), 0.0, TIMES, 1, 100, False).write(folder)
    return folder


def test_short_plan_is_lengthened_to_its_time(timed):
    started = time.monotonic()
    train_run(timed)
    assert 2.4 < time.monotonic() - started < 9  # the record at the end takes a moment
    plan = run.read_config(timed).plan
    assert plan.teacher_steps > 20
    steps = [checkpoint.iteration_in(timed / name) for name in run.CHECKPOINTS]
    assert steps == [stage.steps for stage in plan.stages]


def test_stopped_run_goes_on_with_its_revised_steps(timed, monkeypatch):
    monkeypatch.setattr(resumable, "SAVE_EVERY", 0.0)

    def stop(event):
        if event.iteration >= 20:
            raise Interrupted

    with pytest.raises(Interrupted):
        train_run(timed, stop)
    path = timed / run.CHECKPOINTS[0]
    revised = checkpoint.iterations_in(path)
    assert revised > 20
    keeper = training._timekeeper(timed, run.read_config(timed).plan, Distributed())
    assert keeper[1].teacher_steps == revised
    assert keeper[0].deadline < time.monotonic() + 3 - checkpoint.seconds_in(path) + 0.1
    train_run(timed)
    assert run.is_trained(timed)


def test_damaged_pace_is_one_line(timed):
    (timed / PACE).write_text("{}")
    with pytest.raises(InputError, match=r"pace\.json is damaged .*; delete it"):
        train_run(timed)
