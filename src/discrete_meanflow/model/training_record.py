"""What a training achieved: ``training.json``, and the note that warns of poor samples.

At its end, a training compares one-step samples with training records. A run that was trained too
little repeats a few records that consist of the most frequent symbols.
"""

import contextlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.metric.two_samples import empirical_tv
from discrete_meanflow.model.options import SampleOptions
from discrete_meanflow.model.plan import Plan
from discrete_meanflow.model.run_folder import CHECKPOINTS, CONFIG, TRAINING, Config, is_trained
from discrete_meanflow.model.sampling import sample_tokens
from discrete_meanflow.run.json_files import Json, read_json, write_json
from discrete_meanflow.sampler import KernelSampler, generate
from discrete_meanflow.training import checkpoint
from discrete_meanflow.types import State

MOST_RECORDS, FEWEST_RECORDS = 1000, 50  # compared
MOST_OPERATIONS = 5e11  # of all samples: a few seconds on a CPU
# Above the TV within the data. Excess on names: 0.31 after 40 steps, 0.17 after 2,000, 0.03
# after 6,000; on mushrooms: 0.39 after 40 steps, 0.10 after 400, 0 after 2,000.
POOR_TV = 0.2
# Of the fraction in the data. A perfect generator that draws n times from n equally likely records
# has 1 - 1/e = 63 % distinct ones. Names: 0.1 % after 40 steps, 31 % after 2,000, 99 % after 6,000.
POOR_DISTINCT = 0.5
MANY_STEPS = 16  # that a finished teacher needs
DIVERGENCE = "divergence"  # a note in the record: what happened, if the third stage diverged


@dataclass(frozen=True)
class Scores:
    """Scores of records against training records.

    Args:
        symbol_tv: total variation of the symbol frequencies at each position, averaged.
        distinct: fraction of distinct records.
    """

    symbol_tv: float
    distinct: float

    @classmethod
    def of(cls, records: State, others: State) -> "Scores":
        """Scores of token sequences ``(N, D)``; the TV is measured against ``others``."""
        positions = torch.arange(records.shape[1])
        symbols = 1 + max(int(records.max()), int(others.max()))
        codes = [(part.long() + symbols * positions).flatten() for part in (records, others)]
        distinct = len(torch.unique(records, dim=0)) / len(records)
        return cls(empirical_tv(codes[0], codes[1]), distinct)

    @classmethod
    def from_json(cls, content: Any) -> "Scores":
        scores = cls(float(content["symbol_tv"]), float(content["distinct"]))
        if not (0 <= scores.symbol_tv <= 1 and 0 <= scores.distinct <= 1):
            raise ValueError(f"{scores} are not fractions")
        return scores

    def are_poor(self, data: "Scores") -> bool:
        """Whether samples with these scores are poor, given the scores of the data."""
        return (
            self.symbol_tv > data.symbol_tv + POOR_TV
            or self.distinct < POOR_DISTINCT * data.distinct
        )


def composition_residual(kernel: Kernel, config: Config) -> float:
    """Fraction of the symbols on which one step and two steps from the same noise differ.

    It is 0 for an exact flow map. The two steps are even on the decoding clock.
    """
    codec, device = config.codec, kernel.device
    shape = (min(_affordable(config), MOST_RECORDS), codec.length)
    process, bf16 = config.plan.process(codec), config.plan.samples_in_bf16(device)
    one, two = (
        torch.cat(list(generate(sampler, process, shape, g.manual_seed(0), bf16=bf16)))
        for sampler in (KernelSampler(kernel, kernel.times_between(0, k)) for k in (1, 2))
        for g in (torch.Generator(device),)
    )
    return (one != two).double().mean().item()


def write_training_record(
    folder: Path, kernel: Kernel, config: Config, train: State, notes: Json
) -> None:
    """Compare samples with training records and write ``training.json``, with notes of the stages.

    Samples of several steps are drawn only if those of one step are poor.
    """
    count = min(_affordable(config), len(train))
    rows = numpy.random.default_rng(0).choice(len(train), count, replace=False)
    data = train[torch.from_numpy(rows)]
    halves = data.tensor_split([(count + 1) // 2]) if count > 1 else (data, data)
    # The TV of two halves is larger than that of two samples of full size.
    real = Scores(Scores.of(*halves).symbol_tv, Scores.of(data, data).distinct)
    samples: dict[str, Json] = {}
    for steps in _compared_steps(config):
        tokens = torch.cat(list(sample_tokens(kernel, config, SampleOptions(count, steps, seed=0))))
        scores = Scores.of(tokens, data)
        samples[str(steps)] = asdict(scores)
        if not scores.are_poor(real):
            break
    plan = config.plan
    record = {
        "teacher_steps": plan.teacher_steps,
        "student_steps": plan.student_steps,
        "matching_steps": plan.matching_steps,
        "records": count,
        "data": asdict(real),
        "samples": samples,
        **notes,
    }
    write_json(folder / TRAINING, record)


def _compared_steps(config: Config) -> tuple[int, ...]:
    """Numbers of function evaluations of the samples that are compared."""
    steps = config.plan.default_steps(config.codec)
    return (1, MANY_STEPS) if steps == 1 else (steps,)


def _affordable(config: Config) -> int:
    """Number of samples at the compared numbers of steps that take a few seconds."""
    plan, codec = config.plan, config.codec
    evaluations = sum(_compared_steps(config)) * (codec.length if plan.heads else 1)
    record = 2 * plan.parameter_count(codec) * evaluations
    return max(FEWEST_RECORDS, min(MOST_RECORDS, int(MOST_OPERATIONS / record)))


def steps_done(folder: Path, plan: Plan) -> int:
    """Optimiser steps of all stages so far, read from the checkpoints; no more than planned."""
    stages = zip(CHECKPOINTS, plan.stages, strict=False)  # there may be fewer stages
    return sum(
        max(0, min(checkpoint.iteration_in(folder / name), stage.steps)) for name, stage in stages
    )


def sampling_note(
    folder: Path, config: Config, steps: int | None = None, refine: bool = False
) -> str | None:
    """One line if samples of ``steps`` forward passes are probably poor, with what to do.

    Refined samples are judged by those of one step, of which they consist.
    """
    steps = 1 if refine else steps or config.plan.default_steps(config.codec)
    if is_trained(folder):
        return _poor_note(folder, config, steps)
    if not (folder / CONFIG).exists():  # moved or deleted since it was loaded
        return None
    done = f"{steps_done(folder, config.plan):,} of {config.plan.steps:,} steps"
    note = f"training of {folder} is not finished ({done}), so samples may be poor"
    distilled = config.plan.system.distilled
    if distilled and steps < MANY_STEPS and not (folder / CHECKPOINTS[1]).exists():
        note += f"; its first stage learns only short steps: use --steps {MANY_STEPS}"
        note += " without --refine" * refine
    return note


def divergence_note(folder: Path) -> str | None:
    """One line if the third stage of a trained run diverged."""
    with contextlib.suppress(InputError):
        note = read_json(folder / TRAINING).get(DIVERGENCE)
        return None if note is None else str(note)
    return None


def _poor_note(folder: Path, config: Config, steps: int) -> str | None:
    """The note of a trained run. Runs without a valid ``training.json`` have none."""
    try:
        record = read_json(folder / TRAINING)
        data = Scores.from_json(record["data"])
        samples = {int(k): Scores.from_json(scores) for k, scores in record["samples"].items()}
        scores = samples[max(k for k in samples if k <= steps)]
    except (InputError, KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
    if not scores.are_poor(data):
        return None
    better = [k for k in samples if k > steps and not samples[k].are_poor(data)]
    more_steps = f", or sample with --steps {better[0]}" if better else ""
    return (
        f"samples of {folder} are poor after {config.plan.steps:,} training steps: "
        f"{scores.distinct:.1%} are distinct (data: {data.distinct:.1%}), and their symbol "
        f"frequencies have TV {scores.symbol_tv:.2f} (data: {data.symbol_tv:.2f}); train longer, "
        f"with dmf train FILE --minutes N --out NEW{more_steps}"
    )
