"""Options as values: validated once, shared by the command line, Python and the run folder.

The commands take their help from the docstrings. Fields are annotated with the arguments of
``tyro.conf.arg`` that show them; this module imports neither tyro nor PyTorch.
"""

import math
import numbers
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

from discrete_meanflow.errors import InputError
from discrete_meanflow.printable import shown

LARGEST_SEED = 2**63 - 1
LARGEST_BATCH = 2**20
LARGEST_STEPS = 10**9
LARGEST_MINUTES = 10**6
SMALLEST_SIZE, LARGEST_SIZE = 1e4, 2e9  # parameters
LARGEST_GUIDANCE = 100.0
FEWEST_LM_STEPS = 50  # its learning rate must rise and fall

KindName = Literal["auto", "lines", "windows", "smiles", "fasta", "table", "array"]
Device = Literal["auto", "cpu", "cuda"]
Matching = Literal["auto", "yes", "no"]
MethodName = Literal[
    "one-step", "flow-matching", "psd", "lsd", "esd", "meanflow", "consistency", "shortcut",
    "imm",
    "d3pm", "d3pm-uniform", "sedd", "sedd-uniform", "mdlm", "dfm", "dfm-uniform", "campbell",
    "defog", "kernel-ce", "autoregressive",
]  # fmt: skip


def optional(metavar: str, **shown: Any) -> dict[str, Any]:
    """How a command shows an optional argument: its placeholder, and no default.

    ``append`` collects the values of an option that is given several times.
    """
    return {"metavar": metavar, "help_behavior_hint": "", **shown}


def check_flag(name: str, value: object) -> None:
    """Raise unless a value is True or False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be True or False, got {shown(value)}")


class _Checked:
    """Checks of fields without their defaults; numpy's numbers become plain Python numbers."""

    def _whole(self, name: str, least: int, most: int = LARGEST_STEPS) -> None:
        value = getattr(self, name)
        if value is getattr(type(self), name):
            return
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise InputError(f"{name} must be a whole number, got {shown(value)}")
        if not least <= int(value) <= most:
            limit = f"at least {least}" if most >= LARGEST_STEPS else f"from {least} to {most:,}"
            raise InputError(f"{name} must be {limit}, got {shown(int(value))}")
        object.__setattr__(self, name, int(value))

    def _real(self, name: str, least: float, most: float) -> None:
        value = getattr(self, name)
        if value is getattr(type(self), name):
            return
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise InputError(f"{name} must be a number, got {shown(value)}")
        if not least <= value <= most:  # type: ignore[operator]
            raise InputError(f"{name} must be from {least:g} to {most:g}, got {shown(value)}")
        object.__setattr__(self, name, float(value))

    def _one_of(self, name: str, choices: tuple[str, ...]) -> None:
        value = getattr(self, name)
        if not isinstance(value, str) or value not in choices:  # an array is in no tuple
            known = ", ".join(choices)
            raise InputError(f"unknown {name} {shown(value)}; known: {known}")


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file.

    Args:
        kind: Kind of data; auto looks at the file name and the first lines.
        length: Window length for long texts.
        pad: Allow records of different lengths; short ones are padded.
        tokenizer: Hugging Face tokenizers JSON; lines and windows become subwords instead of
            characters.
        header: Whether the first row of a table names its columns.
        drop: Columns of a table to leave out, such as row identifiers.
        columns: COLUMN=levels or COLUMN=number, for columns of a table that are not what
            their cells look like: numbers that are codes, say.
        constraints: What all rows of a table satisfy, whenever the run is sampled: 'a<=b' (or <),
            'together(a,b)' for combinations that occur in the file, 'unique(a)' for a key.
        label: Classes of the records: a column of the table, an array of the .npz, a .npy file,
            or a text file with one class per line.
    """

    kind: KindName = "auto"
    length: int = 64
    pad: bool = True
    tokenizer: Annotated[Path | None, optional("FILE")] = None
    header: Literal["auto", "yes", "no"] = "auto"
    drop: Annotated[tuple[str, ...], optional("COLUMN ...")] = ()
    columns: Annotated[tuple[str, ...], optional("COLUMN=KIND ...")] = ()
    constraints: Annotated[tuple[str, ...], optional("RULE ...")] = ()
    label: Annotated[str | None, optional("WHERE")] = None

    @property
    def column_kinds(self) -> dict[str, str]:
        """The kind of each column that ``columns`` names."""
        pairs = [text.rpartition("=")[::2] for text in self.columns]
        if wrong := next((kind for name, kind in pairs if not name), None):
            raise InputError(f"--columns {wrong}: write COLUMN=levels or COLUMN=number")
        return dict(pairs)


@dataclass(frozen=True)
class FitOptions(_Checked):
    """How to train.

    Args:
        minutes: Training time; the number of steps is chosen to fill it.
        iterations: Number of optimiser steps over all stages, instead of a training time.
        size: Parameters of the network (default: chosen from data and device).
        batch: Records per step (default: chosen from data and device).
        accumulate: Gradient accumulation steps.
        method: System to train; docs/choosing.md compares them.
        matching: Whether to train the third stage, distribution matching; auto leaves it out of
            states of fewer than 54 numbers (positions times symbols), where it does not pay.
        seed: Random seed for the split, initialisation and training.
        held_out: Records kept for evaluation (default: 15 %, at most 10,000).
        device: Device to train on.
    """

    minutes: float = 10.0
    iterations: Annotated[int | None, optional("N")] = None
    size: Annotated[float | None, optional("N")] = None
    batch: Annotated[int | None, optional("N")] = None
    accumulate: int = 1
    method: MethodName = "one-step"
    matching: Matching = "auto"
    seed: int = 0
    held_out: Annotated[int | None, optional("N")] = None
    device: Device = "auto"

    def __post_init__(self) -> None:
        self._real("minutes", 0, LARGEST_MINUTES)
        if not self.minutes > 0:
            raise InputError("minutes must be more than 0")
        self._real("size", SMALLEST_SIZE, LARGEST_SIZE)
        self._whole("batch", 1, LARGEST_BATCH)
        self._whole("accumulate", 1)
        self._one_of("matching", get_args(Matching))
        self._one_of("method", get_args(MethodName))
        self._one_of("device", get_args(Device))
        if self.matching == "yes" and self.method != FitOptions.method:
            raise InputError(
                f"matching is a stage of method {FitOptions.method}; leave it out with method "
                f"{self.method}"
            )
        stages = 3 if self.matching == "yes" else 2
        self._whole("iterations", 2 ** (stages - 1))  # at least one step in each stage
        self._whole("seed", 0, LARGEST_SEED)
        self._whole("held_out", 1)
        if self.batch is not None and self.batch % self.accumulate:
            raise InputError(
                f"accumulate: {self.accumulate} does not divide a batch of {self.batch}"
            )
        if self.batch is not None and self.batch < 2 * self.accumulate:
            raise InputError(
                f"batch must be at least {2 * self.accumulate}, twice accumulate: half of it are "
                f"teacher pairs; got {self.batch}"
            )


@dataclass(frozen=True)
class SampleOptions(_Checked):
    r"""How to generate records.

    Args:
        n: Number of records; with --infill-file, for each of its lines.
        steps: Forward passes per record (default: 1, or what the method of the run needs).
        seed: Random seed; the same seed gives the same records.
        infill: Known part of the records: 'ma??' for text (? is unknown, \? a question mark, \\ a
            backslash), 'colour=red|blue,age>=60' for tables, '0,?,3' for arrays. Given several
            times, all hold.
        infill_file: File with one such pattern per line, may be gzipped; -n records for each line,
            in order. An empty line sets no condition.
        constraints: What all rows of a table satisfy, besides the constraints of the run: 'a<=b',
            'together(a,b)', 'unique(a)'.
        label: Class of the records, if the run was trained with classes.
        guidance: Classifier-free guidance scale for the known part and the class; 1 disables it,
            other values take a second forward pass.
        temperature: Softmax temperature.
        top_p: Nucleus sampling: keep the most likely symbols with this total probability.
        refine: Generate whole records in each step; keep the confident positions and generate
            the others again in the next.
    """

    n: Annotated[int, {"aliases": ["-n"]}] = 10
    steps: Annotated[int | None, optional("K")] = None
    seed: Annotated[int | None, optional("N")] = None
    infill: Annotated[tuple[str, ...], optional("TEXT", append=True)] = ()
    infill_file: Annotated[Path | None, optional("FILE")] = None
    constraints: Annotated[tuple[str, ...], optional("RULE ...")] = ()
    label: Annotated[Any, optional("NAME", name="class", constructor=str)] = None
    guidance: float = 1.0
    temperature: Annotated[float | None, optional("X")] = None
    top_p: Annotated[float | None, optional("X")] = None
    refine: bool = False

    def __post_init__(self) -> None:
        self._whole("n", 1, LARGEST_SEED)
        self._whole("steps", 1)
        self._whole("seed", 0, LARGEST_SEED)
        if not isinstance(self.infill, tuple):
            raise InputError(f"infill must be a tuple of patterns, got {shown(self.infill)}")
        self._real("guidance", 0, LARGEST_GUIDANCE)
        # The logit processors check the ranges of these two.
        self._real("temperature", -math.inf, math.inf)
        self._real("top_p", -math.inf, math.inf)
        check_flag("refine", self.refine)


@dataclass(frozen=True)
class EvaluateOptions(_Checked):
    """What to evaluate.

    Args:
        n: Records to generate at each number of steps.
        steps: Numbers of forward passes.
        seed: Random seed for sampling.
        lm_steps: Training steps of a reference language model that measures bits per symbol, such
            as 3000; slow without a GPU. 0 disables it.
    """

    n: Annotated[int, {"aliases": ["-n"]}] = 2000
    steps: Annotated[tuple[int, ...], {"metavar": "K ..."}] = (1, 2, 4, 8, 16)
    seed: int = 0
    lm_steps: int = 0

    def __post_init__(self) -> None:
        self._whole("n", 4)
        self._whole("seed", 0, LARGEST_SEED)
        self._whole("lm_steps", 0)
        if 0 < self.lm_steps < FEWEST_LM_STEPS:
            raise InputError(f"lm_steps must be 0 or at least {FEWEST_LM_STEPS}")
        try:
            steps = tuple(SampleOptions(steps=k).steps or 0 for k in self.steps)
        except TypeError:
            raise InputError(f"steps must be a list of numbers, got {shown(self.steps)}") from None
        if not all(steps) or not steps or len(set(steps)) < len(steps):
            values = " ".join(map(str, steps)) or "none"
            raise InputError(f"steps must be distinct numbers from 1, got {values}")
        object.__setattr__(self, "steps", steps)

    @property
    def command_line(self) -> str:
        """The options of ``dmf evaluate`` that repeat this evaluation."""
        steps = " ".join(map(str, self.steps))
        lm_steps = f" --lm-steps {self.lm_steps}" * bool(self.lm_steps)
        return f"-n {self.n} --seed {self.seed} --steps {steps}{lm_steps}"


@dataclass(frozen=True)
class CompareOptions(_Checked):
    """What to compare.

    Args:
        methods: Methods to train (default: all).
        minutes: Training time of each.
        iterations: Number of optimiser steps of each, instead of a time.
        size: Parameters of the network of each (default: chosen from data and device).
        steps: Numbers of function evaluations per record.
        n: Records to generate at each of them.
        seed: Random seed for the split, training and sampling.
        held_out: Records kept for the scores (default: 15 %, at most 10,000).
    """

    methods: Annotated[tuple[str, ...], optional("NAME ...")] = ()
    minutes: float = 2.0
    iterations: Annotated[int | None, optional("N")] = None
    size: Annotated[float | None, optional("N")] = None
    steps: Annotated[tuple[int, ...], {"metavar": "K ..."}] = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    n: Annotated[int, {"aliases": ["-n"]}] = 2000
    seed: int = 0
    held_out: Annotated[int | None, optional("N")] = None

    def __post_init__(self) -> None:
        methods = tuple(self.methods) or get_args(MethodName)
        if len(set(methods)) < len(methods):
            raise InputError(f"methods must be distinct, got {' '.join(methods)}")
        object.__setattr__(self, "methods", methods)
        for name in methods:
            self.fit(name)
        evaluate = EvaluateOptions(self.n, self.steps, self.seed)
        object.__setattr__(self, "steps", evaluate.steps)
        object.__setattr__(self, "n", evaluate.n)

    def fit(self, method: str) -> FitOptions:
        """How to train a method."""
        return FitOptions(
            self.minutes,
            self.iterations,
            self.size,
            method=cast(MethodName, method),
            seed=self.seed,
            held_out=self.held_out,
        )
