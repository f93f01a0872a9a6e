"""The numbers of steps and teacher pairs that fit into the training time."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import torch

from discrete_meanflow.data import Sequences
from discrete_meanflow.io.codec import Codec
from discrete_meanflow.model.pace import FEWEST_PAIRS, Pace, PerPart
from discrete_meanflow.model.plan import Plan
from discrete_meanflow.model.plan_limits import MOST_PAIRS, pair_bytes
from discrete_meanflow.path import DataPaths
from discrete_meanflow.sampler import chunk_size
from discrete_meanflow.training import Problem, Recipe, Trainer
from discrete_meanflow.training.trace import COMPILE_FROM

PAIR_EPOCHS = 2  # of the second stage over the teacher pairs, where steps are counted
CPU_PAIR_BYTES = 2**29  # of all teacher pairs
GPU_PAIR_BYTES = 2**32
COMPILE_MINUTES = 3.0  # training time from which compilation pays
TRIAL_PAIRS = 512  # on a CPU; a GPU generates a whole chunk
TRIAL_BLOCK = 10  # steps that are timed together, where they are quick
FEWEST_TRIALS = 2
MOST_TRIALS = 6
TRIAL_SECONDS = 4.0  # after which no further trial is made
PHASE_POINTS = 20  # of a training at which its objective is looked up
QUICK_STEP = 0.2  # seconds
FEWEST_BLOCKS = 20  # of a stage, so that its number of steps can be revised


def plan_steps(plan: Plan, codec: Codec, device: str, iterations: int) -> Plan:
    """Set the numbers of steps: half of ``iterations`` for the teacher; the rest for the student.

    With a third stage, half of the student's steps are distribution matching.
    """
    if not plan.system.distilled:
        return replace(plan, teacher_steps=iterations, compiled=iterations >= COMPILE_FROM)
    matching_steps = iterations // 4 if plan.matching_steps else 0
    student_steps = iterations // 2 - matching_steps
    # Each pair is used several times: generating one takes longer than learning from it.
    records = student_steps * plan.batch // 2  # the other half of a batch is data
    fewest = min(records, FEWEST_PAIRS)
    pairs = max(fewest, records // PAIR_EPOCHS)
    return replace(
        plan,
        teacher_steps=iterations - student_steps - matching_steps,
        student_steps=student_steps,
        matching_steps=matching_steps,
        teacher_pairs=min(most_pairs(codec, device), pairs),
        compiled=iterations // 2 >= COMPILE_FROM,
    )


def plan_minutes(
    plan: Plan, codec: Codec, data: Sequences, device: str, minutes: float, world_size: int = 1
) -> tuple[Plan, Pace]:
    """Time a step of each stage, and set the numbers of steps and pairs to fill the minutes.

    Returns the plan, which takes longer if the fewest steps do, and the pace that was measured.
    Each rank trains on its part of a batch, so that part is timed.
    """
    started = time.monotonic()
    gpu = torch.device(device).type == "cuda"
    with torch.device("meta"):  # only its type is needed
        most = chunk_size(codec.length, codec.vocabulary, plan.network(codec))
    # Chunks have one size on a GPU, that of the trial too: compiled code serves all of them.
    chunk = most if gpu else TRIAL_PAIRS
    distilled = plan.system.distilled
    trial = replace(
        plan,
        teacher_steps=1000,
        student_steps=1000 * distilled,
        matching_steps=1000 if plan.matching_steps else 0,
        teacher_pairs=chunk * distilled,
        compiled=minutes >= COMPILE_MINUTES,
        batch=plan.batch // world_size,
    )
    times = _time_stages(trial, codec, data, device, min(chunk, most))
    times = times._replace(pairs=times.pairs / world_size)  # ranks generate pairs in turn
    spent = time.monotonic() - started
    pace = Pace(minutes, spent, times, chunk if gpu else 1, most_pairs(codec, device), gpu)
    timed = replace(trial, batch=plan.batch)
    fewest = min(stage.steps for stage in pace.divided(timed, pace.seconds - spent).stages)
    timed = replace(timed, block=max(1, min(plan.block, fewest // FEWEST_BLOCKS)))
    return pace.divided(timed, pace.seconds - spent), pace


def most_pairs(codec: Codec, device: str) -> int:
    """The number of teacher pairs that fit into memory."""
    gpu = torch.device(device).type == "cuda"
    room = GPU_PAIR_BYTES if gpu else CPU_PAIR_BYTES
    return max(TRIAL_PAIRS, min(MOST_PAIRS, room // pair_bytes(codec)))


def _time_stages(trial: Plan, codec: Codec, data: Sequences, device: str, chunk: int) -> PerPart:
    """Seconds of a step of each stage, and of a teacher pair."""
    first, place = trial.problem(codec, data), torch.device(device)
    # On a CPU one step at first, as it may take seconds; on a GPU steps are captured in blocks.
    block = min(trial.block, TRIAL_BLOCK) if place.type == "cuda" else 1
    recipe = replace(trial.stages[0].recipe, block=block)
    if not trial.system.distilled:
        return PerPart(_mean_step_seconds(first, recipe, device, trial.block), 0.0, 0.0, 0.0)
    trainer = Trainer(first, recipe, [0], device)
    teacher = _step_seconds(trainer, trial.block)
    kernel = trainer.kernels()[0]
    assert isinstance(first.paths, DataPaths)
    compiled = trial.distillation.worth_compiling(1, place)
    chunks = trial.distillation.chunks(first.paths, kernel, 0, chunk, compiled)
    next(chunks)  # compiles
    pair = _fastest(lambda: next(chunks)[1].cpu()) / chunk  # .cpu() waits for the GPU
    problem = trial.distillation.problem(first, kernel, 0)
    recipe = replace(trial.distillation.recipe, block=block)
    student = _step_seconds(Trainer(problem, recipe, [0], device), trial.block)
    if not trial.matching_steps:
        return PerPart(teacher, pair, student, 0.0)
    third = trial.matching.problem(first, problem, kernel)
    recipe = replace(trial.matching.recipe, block=block)
    matching = _step_seconds(Trainer(third, recipe, [0], device), trial.block)
    return PerPart(teacher, pair, student, matching)


def _mean_step_seconds(problem: Problem, recipe: Recipe, device: str, most: int) -> float:
    """Seconds of a step, averaged over the phases of the objective."""
    objectives = [problem.objective.at((i + 0.5) / PHASE_POINTS) for i in range(PHASE_POINTS)]
    counts = Counter(objectives)
    seconds = {
        objective: _step_seconds(
            Trainer(replace(problem, objective=objective), recipe, [0], device), most
        )
        for objective in counts
    }
    return sum(seconds[objective] * count for objective, count in counts.items()) / PHASE_POINTS


def _step_seconds(trainer: Trainer, most: int) -> float:
    """Seconds of a step after compilation; measured over blocks where steps are quick."""
    blocks = trainer.blocks()
    next(blocks)
    seconds = _fastest(lambda: next(blocks)) / trainer.recipe.block
    if seconds > QUICK_STEP or trainer.recipe.block > 1:
        return seconds
    trainer.recipe = replace(trainer.recipe, block=min(most, TRIAL_BLOCK))
    return _fastest(lambda: next(blocks)) / trainer.recipe.block


def _fastest(work: Callable[[], object]) -> float:
    """Seconds of the fastest of a few trials, so that one disturbed trial does not decide."""
    seconds: list[float] = []
    while len(seconds) < FEWEST_TRIALS or (
        len(seconds) < MOST_TRIALS and sum(seconds) < TRIAL_SECONDS
    ):
        before = time.monotonic()
        work()
        seconds.append(time.monotonic() - before)
    return min(seconds)
