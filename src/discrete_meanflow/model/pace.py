"""The training time of a run, and the numbers of steps that fit into what is left of it.

The speed of a machine varies: other programs use it, or stop. So the steps that were planned are
revised while the run trains (:class:`Timekeeper`), and ``pace.json`` keeps what this needs.
"""

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.model.plan import Plan
from discrete_meanflow.run.json_files import Json, read_json, write_json
from discrete_meanflow.training import Distributed, Trainer

PACE = "pace.json"


class PerPart(NamedTuple):
    """A number for each part of the training, in order, such as its fraction of the time."""

    teacher: float
    pairs: float  # generating teacher pairs
    student: float
    matching: float


WITH_MATCHING = PerPart(0.45, 0.08, 0.17, 0.30)
WITHOUT_MATCHING = PerPart(0.45, 0.15, 0.40, 0.0)
ONE_STAGE = PerPart(1.0, 0.0, 0.0, 0.0)
FIRST_PARTS = (0, 1, 3)  # of the stages
RESERVED_FRACTION = 0.05  # of the time, for everything else
FEWEST_STEPS = 100  # of each stage
FEWEST_PAIRS = 1000
TOLERANCE = 0.02  # fraction of a stage's time by which it may end early or late
LAST_BLOCKS = 2  # of a stage, whose number of steps is not revised any more


@dataclass(frozen=True)
class Pace:
    """The training time that the user asked for, and the speed that was measured.

    Args:
        minutes: training time.
        prepared: seconds of them that planning took.
        times: seconds of a step of each stage, and of a teacher pair.
        chunk: the number of teacher pairs is a multiple of it.
        most_pairs: that fit into memory.
        whole_blocks: whether the number of steps is a multiple of a block.
    """

    minutes: float
    prepared: float
    times: PerPart
    chunk: int
    most_pairs: int
    whole_blocks: bool

    @property
    def seconds(self) -> float:
        """The training time without what is reserved."""
        return 60 * self.minutes * (1 - RESERVED_FRACTION)

    def divided(self, plan: Plan, seconds: float, stage: int = 0, slowdown: float = 1.0) -> Plan:
        """The plan with the steps and pairs, from a stage on, that fill the seconds."""
        first, fractions = FIRST_PARTS[stage], shares(plan)
        whole = sum(fractions[first:])
        counts = [
            int(seconds * share / whole / (slowdown * part)) if share else 0
            for share, part in zip(fractions, self.times, strict=True)
        ]
        pairs = min(self.most_pairs, max(FEWEST_PAIRS, counts[1]))
        pairs = max(self.chunk, pairs // self.chunk * self.chunk)
        multiple = plan.block if self.whole_blocks else 1
        steps = [max(FEWEST_STEPS, n // multiple * multiple) for n in counts]
        values: Json = {"teacher_steps": steps[0]}
        if plan.system.distilled:
            values |= {"teacher_pairs": pairs, "student_steps": steps[2]}
        if plan.matching_steps:
            values |= {"matching_steps": steps[3]}
        begun = ("teacher_steps", "teacher_pairs", "student_steps")[:first]
        return replace(plan, **{name: n for name, n in values.items() if name not in begun})

    def expected(self, plan: Plan) -> float:
        """The minutes that a plan takes, with planning."""
        times = self.times
        training = sum(
            stage.steps * seconds
            for stage, seconds in zip(
                plan.stages, (times.teacher, times.student, times.matching), strict=False
            )
        )
        return (self.prepared + training + plan.teacher_pairs * times.pairs) / 60

    def write(self, folder: Path) -> None:
        write_json(folder / PACE, asdict(self) | {"times": self.times._asdict()})

    @classmethod
    def read(cls, folder: Path) -> "Pace | None":
        """The pace of a run; None if it has a given number of steps."""
        if not (folder / PACE).exists():
            return None
        content = read_json(folder / PACE, "delete it to keep the steps of the plan")
        try:
            times = PerPart(**{name: float(part) for name, part in content["times"].items()})
            return cls(
                float(content["minutes"]),
                float(content["prepared"]),
                times,
                int(content["chunk"]),
                int(content["most_pairs"]),
                bool(content["whole_blocks"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{folder / PACE} is damaged ({error}); delete it") from None


def shares(plan: Plan) -> PerPart:
    """The fraction of the training time of each part."""
    if not plan.system.distilled:
        return ONE_STAGE
    return WITH_MATCHING if plan.matching_steps else WITHOUT_MATCHING


class Timekeeper:
    """Revises the steps of a run so that it ends in time.

    Args:
        pace: the training time and the speed that was measured.
        spent: seconds of training in earlier sessions.
        distributed: the ranks; the first decides.
    """

    def __init__(self, pace: Pace, spent: float, distributed: Distributed) -> None:
        self.pace, self.distributed = pace, distributed
        self.deadline = time.monotonic() + pace.seconds - pace.prepared - spent
        self.seconds = self.end = 0.0  # of the current stage
        self.mark: tuple[int, float] | None = None  # step and time from which speed is measured
        self.step_seconds: float | None = None  # of the newest steps

    def begin(self, plan: Plan, stage: int, done: float) -> None:
        """Begin or resume a stage, of which a fraction is done."""
        fractions, first = shares(plan), (0, 2, 3)[stage]
        current, later = fractions[first] * (1 - done), sum(fractions[first + 1 :])
        now = time.monotonic()
        self.seconds = max(0.0, self.deadline - now) * current / max(current + later, 1e-9)
        self.end, self.mark, self.step_seconds = now + self.seconds, None, None

    def steps(self, trainer: Trainer) -> int:
        """The number of steps with which the current stage ends in time.

        The first block, which includes tracing and compilation, does not count as speed.
        """
        chosen = torch.tensor([self._steps(trainer)], device=self.distributed.device)
        self.distributed.broadcast(chosen, 0)
        return int(chosen)

    def _steps(self, trainer: Trainer) -> int:
        done, planned, block = trainer.iteration, trainer.recipe.iterations, trainer.recipe.block
        now, left = time.monotonic(), planned - done
        if self.mark is None:
            self.mark = done, now
            return planned
        step, since = self.mark
        self.step_seconds = max(now - since, 1e-6) / (done - step)
        late = self.step_seconds * left - (self.end - now)
        if left < LAST_BLOCKS * block or abs(late) <= TOLERANCE * self.seconds:
            return planned
        self.mark = done, now
        blocks = max(LAST_BLOCKS, round((self.end - now) / self.step_seconds / block))
        fewest = -(-(FEWEST_STEPS - done) // block)
        return done + max(blocks, fewest) * block

    def remaining(self, plan: Plan, stage: int) -> Plan:
        """The plan with new steps of the stages after one that just ended."""
        times = self.pace.times
        planned = (times.teacher, times.student, times.matching)[stage]
        slowdown = 1.0 if self.step_seconds is None else self.step_seconds / planned
        left = self.deadline - time.monotonic()
        return self.pace.divided(plan, left, stage + 1, slowdown)
