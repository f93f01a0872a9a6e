"""Options as values: validated once, shared by the command line, Python and the run folder.

This module imports no PyTorch, so that ``dmf --help`` is quick.
"""

import math
import numbers
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discrete_meanflow.errors import InputError

LARGEST_SEED = 2**63 - 1
LARGEST_BATCH = 2**20
LARGEST_STEPS = 10**9
LARGEST_MINUTES = 10**6
SMALLEST_SIZE, LARGEST_SIZE = 1e4, 2e9  # parameters
LARGEST_GUIDANCE = 100.0
FEWEST_LM_STEPS = 50  # its learning rate must rise and fall


class _Checked:
    """Checks of fields, which become plain Python numbers; numpy's are accepted."""

    def _whole(
        self, name: str, least: int, most: int = LARGEST_STEPS, optional: bool = False
    ) -> None:
        value = getattr(self, name)
        if value is None and optional:
            return
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise InputError(f"{name} must be a whole number, got {value!r}")
        if not least <= int(value) <= most:
            limit = f"at least {least}" if most == LARGEST_STEPS else f"from {least} to {most:,}"
            raise InputError(f"{name} must be {limit}, got {value}")
        object.__setattr__(self, name, int(value))

    def _real(self, name: str, least: float, most: float, optional: bool = False) -> None:
        value = getattr(self, name)
        if value is None and optional:
            return
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise InputError(f"{name} must be a number, got {value!r}")
        if not least <= float(value) <= most:
            raise InputError(f"{name} must be from {least:g} to {most:g}, got {float(value):g}")
        object.__setattr__(self, name, float(value))


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file.

    Args:
        kind: what the file contains; ``auto`` looks at its name and its first lines.
        length: window length of a long text.
        pad: whether records may differ in length; short ones are padded.
        tokenizer: a Hugging Face tokenizers JSON; lines or windows become subwords.
        header: whether the first row of a table names its columns: auto, yes or no.
        missing: value for the empty cells of a table, which are an error without it.
        drop: columns of a table to leave out.
        bins: number of quantile bins for numeric columns.
        label: where the classes are: a column, an array of the .npz, a .npy or a text file.
    """

    kind: str = "auto"
    length: int = 64
    pad: bool = True
    tokenizer: Path | None = None
    header: str = "auto"
    missing: str | None = None
    drop: tuple[str, ...] = ()
    bins: int | None = None
    label: str | None = None


@dataclass(frozen=True)
class FitOptions(_Checked):
    """How to train.

    Args:
        minutes: training time; the number of steps is chosen to fill it.
        iterations: number of optimiser steps over both stages, instead of a time.
        size: parameters of the network; None: chosen from the data and the device.
        batch: records per step; None: chosen from the data and the device.
        accumulate: gradient accumulation steps.
        seed: random seed for the split, initialisation and training.
        held_out: records kept for evaluation; None: 15 %, at most 10,000.
        device: auto, cpu or cuda.
    """

    minutes: float = 10.0
    iterations: int | None = None
    size: float | None = None
    batch: int | None = None
    accumulate: int = 1
    seed: int = 0
    held_out: int | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        self._real("minutes", 0, LARGEST_MINUTES)
        if not self.minutes > 0:
            raise InputError("minutes must be more than 0")
        self._whole("iterations", 2, optional=True)  # one step for each stage
        self._real("size", SMALLEST_SIZE, LARGEST_SIZE, optional=True)
        self._whole("batch", 1, LARGEST_BATCH, optional=True)
        self._whole("accumulate", 1)
        self._whole("seed", 0, LARGEST_SEED)
        self._whole("held_out", 1, optional=True)
        if self.batch is not None and self.batch % self.accumulate:
            raise InputError(
                f"accumulate: {self.accumulate} does not divide a batch of {self.batch}"
            )


@dataclass(frozen=True)
class SampleOptions(_Checked):
    """How to generate records.

    Args:
        n: number of records.
        steps: function evaluations per record.
        seed: random seed; None: a new one each time.
        infill: known part of the records, such as ``"ma??"`` or ``{"colour": "red"}``.
        label: class of the records.
        guidance: classifier-free guidance scale; 1 disables it.
        temperature: softmax temperature.
        top_p: nucleus sampling: the probability mass of the symbols that are kept.
    """

    n: int = 10
    steps: int = 1
    seed: int | None = None
    infill: Any = None
    label: Any = None
    guidance: float = 1.0
    temperature: float | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        self._whole("n", 1, LARGEST_SEED)
        self._whole("steps", 1)
        self._whole("seed", 0, LARGEST_SEED, optional=True)
        self._real("guidance", 0, LARGEST_GUIDANCE)
        # The logit processors check the ranges of these two.
        self._real("temperature", -math.inf, math.inf, optional=True)
        self._real("top_p", -math.inf, math.inf, optional=True)


@dataclass(frozen=True)
class EvaluateOptions(_Checked):
    """What to evaluate.

    Args:
        n: records at each number of steps.
        steps: numbers of function evaluations.
        seed: random seed of the samples.
        lm_steps: training steps of a reference language model, which measures bits per symbol;
            0 disables it.
    """

    n: int = 2000
    steps: tuple[int, ...] = (1, 2, 4, 8, 16)
    seed: int = 0
    lm_steps: int = 0

    def __post_init__(self) -> None:
        self._whole("n", 4)
        self._whole("seed", 0, LARGEST_SEED)
        self._whole("lm_steps", 0)
        if 0 < self.lm_steps < FEWEST_LM_STEPS:
            raise InputError(f"lm_steps must be 0 or at least {FEWEST_LM_STEPS}")
        steps = tuple(SampleOptions(steps=k).steps for k in self.steps)
        if not steps or len(set(steps)) < len(steps):
            values = " ".join(map(str, steps)) or "none"
            raise InputError(f"steps must be distinct numbers from 1, got {values}")
        object.__setattr__(self, "steps", steps)

    @property
    def command_line(self) -> str:
        """The options of ``dmf evaluate`` that repeat this evaluation."""
        steps = " ".join(map(str, self.steps))
        lm_steps = f" --lm-steps {self.lm_steps}" * bool(self.lm_steps)
        return f"-n {self.n} --seed {self.seed} --steps {steps}{lm_steps}"
