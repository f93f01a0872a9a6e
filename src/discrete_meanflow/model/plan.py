"""What to train on the data at hand, on the machine at hand, in the time at hand."""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import nn

from discrete_meanflow.data import Sequences
from discrete_meanflow.data.codec import Codec
from discrete_meanflow.data.tokens import token_dtype
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel, Kernel
from discrete_meanflow.network import DiT, FlatMLP, LogitMask
from discrete_meanflow.objective import PosteriorRegression
from discrete_meanflow.process import (
    FixedPositions,
    ObservedPositions,
    OneHotFlow,
    RandomPositions,
    UnionPositions,
)
from discrete_meanflow.sampler import chunk_size
from discrete_meanflow.times import ClockUniform
from discrete_meanflow.training import Distributed, FlowMapDistillation, Problem, Recipe, Trainer
from discrete_meanflow.training.problem import described
from discrete_meanflow.training.trace import COMPILE_FROM

Json = dict[str, Any]
FLAT = 2**14  # numbers in a state up to which one layer over all of them is cheap
CPU_SIZE, GPU_SIZE = 2e6, 16e6  # parameters by default
CPU_BATCH, CPU_STEP = 64, 2e10  # with attention, a CPU's records and operations in a step
CPU_BLOCK = 3e11  # operations of a block, some seconds
SMALLEST, PER_SYMBOL = 1e4, 3  # parameters; a GPU has the time to learn small data by heart
LETTER = 5  # bits; a symbol of a larger alphabet says more, and counts for more
MOST, MOST_LAYERS = 2e9, 1000  # parameters, layers: more is a mistake, or mischief
SHARES = (0.45, 0.15, 0.40)  # of the time: first stage, couples, second stage
COUPLE_STEPS = 16
SEEN = 4  # times that a couple is, where steps are counted
TRIED, FEWEST_COUPLES, MOST_COUPLES = 512, 1000, 1_000_000
COUPLE_BYTES = {"cpu": 2**29, "cuda": 2**32}  # of all couples
STATE_BYTES = 2**28  # of the soft states that are drawn at once, where a step allows it
LARGEST_STEP = 2**36  # bytes
MOST_STEPS, MOST_MINUTES = 10**9, 10**6
LARGEST = {"batch": 2**20, "couples": MOST_COUPLES, "seed": 2**63 - 1, "minibatch_ot": 2**12}
MINIBATCH_OT, MUON = 1024, 4.0  # with attention; over a flattened state they do not pay
NEW = ("minibatch_ot", "muon")  # of which a plan of before says nothing: their defaults stand
CLAMPED = 0.2  # share of the training sequences in which some positions are known
RESERVED = 0.05  # of the time, for what is not training
WORTH_COMPILING = 3.0  # minutes
FEW_BLOCKS = 20  # of whose time a part of one is much
BLOCK, FEWEST_TRIES, MOST_TRIES, TRY_SECONDS = 10, 2, 6, 4.0  # when the pace is looked for
QUICK = 0.2  # seconds of a step, of which some more are then tried


@dataclass(frozen=True)
class Plan:
    """All that a run is trained with; the sizes are those of one kind of network."""

    iterations: int  # on the diagonal
    second: int  # of the second stage, on couples
    couples: int
    batch: int
    learning_rate: float
    seed: int
    bf16: bool
    width: int
    layers: int
    heads: int  # of attention; 0 is a network without, over the flattened state
    compiled: bool = False
    accumulate: int = 1  # pieces that a batch is worked through in
    block: int = 100  # steps whose paths are drawn at once
    minibatch_ot: int = 0  # noises that are dealt out together, each to data that are near
    muon: float = 0.0  # learning rate of inner matrices, by Muon, over the others'; 0: AdamW

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            # JSON may hold anything; True counts as a number in Python, and 3.0 is no count.
            whole = isinstance(value, int) and not isinstance(value, bool)
            fits = {int: whole, float: whole or isinstance(value, float)}
            if not fits.get(field.type, isinstance(value, bool)):  # type: ignore[arg-type]
                raise InputError(f"plan: {field.name} is {value!r}")
        smallest = dict.fromkeys(
            ("heads", "seed", "bf16", "compiled", "learning_rate", "minibatch_ot", "muon"), 0
        )
        for field in fields(self):
            value, most = getattr(self, field.name), LARGEST.get(field.name, MOST_STEPS)
            if not smallest.get(field.name, 1) <= value <= most:
                raise InputError(f"plan: {field.name} is {value}")
        if self.parameters > MOST or self.layers > MOST_LAYERS:
            raise InputError(f"plan: {self.parameters:.3g} parameters, at most {MOST:.0e}")

    def check_size(self, codec: Codec) -> None:
        """Refuse blocks of paths that no machine holds."""
        drawn = self.block * self.step_bytes(codec)
        if drawn > max(STATE_BYTES, LARGEST_STEP if self.block == 1 else 0):
            raise InputError(f"plan: {self.block} steps of {self.batch} take {drawn:,} bytes")
        couples = self.couples * couple_bytes(codec)
        if couples > LARGEST_STEP:
            raise InputError(f"plan: {self.couples} couples take {couples:,} bytes")

    def step_bytes(self, codec: Codec) -> int:
        """Of the paths of a step, in the second stage, whose batch is twice as large."""
        return 2 * self.batch * 4 * (codec.vocabulary * codec.length + self.minibatch_ot)

    @property
    def parameters(self) -> float:
        """About how many, without the ends."""
        return float((12 if self.heads else 4) * self.width**2 * self.layers)

    def sampled_in_half(self, device: torch.device) -> bool:
        """In the precision that it is trained in, but on a CPU, where half of it is slow."""
        return self.bf16 and device.type == "cuda"

    @property
    def first(self) -> Recipe:
        return self._recipe(self.iterations, self.batch)

    @property
    def coupling(self) -> FlowMapDistillation:
        return FlowMapDistillation(
            self.couples, COUPLE_STEPS, self._recipe(self.second, 2 * self.batch)
        )

    def work(self, steps: int, couples: float) -> float:
        """About what so many steps and that share of the couples take, in steps of the first stage.

        One of the second has twice the batch. A couple is some looks at a record, each a third of
        what it takes to learn from one.
        """
        first = min(steps, self.iterations)
        looks = couples * self.couples * COUPLE_STEPS
        return first + looks / (3 * self.batch) + 2 * (steps - first)

    def _recipe(self, iterations: int, batch: int) -> Recipe:
        return Recipe(
            iterations,
            batch,
            self.learning_rate,
            weight_decay=0.01,
            ema_decay=0.999,
            tf32=True,
            bf16=self.bf16,
            compiled=self.compiled,
            accumulate=self.accumulate,
            block=self.block,
            muon_ratio=self.muon,
        )

    def network(self, codec: Codec) -> nn.Module:
        states, length = codec.vocabulary, codec.length
        network: nn.Module
        if self.heads:
            network = DiT(states, length, self.width, self.layers, self.heads)
        else:
            network = FlatMLP(states, length, self.width, self.layers)
        return network if codec.allowed is None else LogitMask(network, codec.allowed)

    def kernel(self, codec: Codec) -> Kernel:
        return FlowMapKernel(self.network(codec), codec.vocabulary)

    def problem(self, codec: Codec, data: Sequences) -> Problem:
        conditioning: ObservedPositions = RandomPositions(CLAMPED)
        if codec.class_positions:
            conditioning = UnionPositions(FixedPositions(codec.class_positions), conditioning)
        return Problem(
            OneHotFlow(data, conditioning, self.minibatch_ot),
            ClockUniform(codec.vocabulary),
            lambda: self.kernel(codec),
            PosteriorRegression(),
        )

    def describe(self) -> Json:
        return described(self, NEW)

    @classmethod
    def from_json(cls, words: Json) -> "Plan":
        try:
            names = [f.name for f in fields(cls) if f.name in words or f.name not in NEW]
            return cls(**{name: words[name] for name in names})
        except (KeyError, TypeError) as error:
            raise InputError(f"this is no plan of a training: {error}") from None


def sensible_size(codec: Codec, device: str, symbols: int) -> float:
    """Parameters for training data of so many symbols, pads among them."""
    if torch.device(device).type == "cuda":
        return min(GPU_SIZE, max(SMALLEST, PER_SYMBOL * symbols * _letters(codec)))
    if codec.vocabulary * codec.length <= FLAT:
        return CPU_SIZE
    return min(CPU_SIZE, max(SMALLEST, CPU_STEP / (6 * codec.length * CPU_BATCH)))


def _letters(codec: Codec) -> float:
    """How many letters a symbol counts for, on average over the positions."""
    allowed = codec.allowed
    levels = [codec.vocabulary] if allowed is None else allowed.sum(-1).tolist()
    return statistics.fmean(max(1, math.log2(n) / LETTER) for n in levels)


def choose(
    codec: Codec,
    device: str,
    size: float,
    seed: int,
    batch: int | None,
    accumulate: int = 1,
    processes: int = 1,
) -> Plan:
    """A plan for the data and the device; ``size`` is the one dial, in parameters."""
    gpu = torch.device(device).type == "cuda"
    if not SMALLEST <= size <= MOST:
        raise InputError(f"--size: parameters from {SMALLEST:,.0f} to {MOST:.0e}, got {size:g}")
    flat = codec.vocabulary * codec.length
    if not gpu and flat <= FLAT:
        layers = 3
        # Of width w, layers have 4 w^2 parameters and two ends w times the state.
        width = int(((flat**2 + 4 * layers * size) ** 0.5 - flat) / (4 * layers))
        sizes = (max(16, width - width % 2), layers, 0)
    else:
        with torch.device("meta"):  # only to see how large it is
            network = DiT.sized(codec.vocabulary, codec.length, size)
        sizes = (network.width, len(network.layers), network.heads)
    rate = 1e-3 if size < 5e6 else 6e-4
    if batch is None:
        batch = _batch(codec, gpu, share=2 * processes * max(1, accumulate))
    if not 1 <= batch <= LARGEST["batch"]:
        raise InputError(f"--batch: from 1 to {LARGEST['batch']:,} records, got {batch}")
    if accumulate < 1 or batch % accumulate:
        raise InputError(f"--accumulate: {accumulate} pieces do not make up a batch of {batch}")
    Distributed(processes).check(batch // accumulate)
    plan = Plan(1, 1, 1, batch, rate, seed, gpu, *sizes, accumulate=accumulate)
    if plan.heads:
        # Of a classed record the class is known, as a rule, and what is known is not matched.
        minibatch_ot = 0 if codec.class_positions else MINIBATCH_OT
        plan = replace(plan, minibatch_ot=minibatch_ot, muon=MUON)
    # All that is drawn together fits into memory; and as a run stops after a block, a CPU has
    # blocks that end soon.
    block = min(100, STATE_BYTES // plan.step_bytes(codec))
    work = 6 * plan.parameters * 2 * batch * (codec.length if plan.heads else 1)
    return replace(plan, block=max(1, block if gpu else min(block, int(CPU_BLOCK / work))))


def _batch(codec: Codec, gpu: bool, share: int) -> int:
    """Records of a step, a multiple of ``share``: as many as are sensible, and as fit."""
    flat = codec.vocabulary * codec.length
    record = 4 * flat  # bytes of a soft state
    fit = min(512 if gpu else 256 if flat <= FLAT else CPU_BATCH, STATE_BYTES // record)
    if fit < 1:
        raise InputError(
            f"{codec.length:,} positions of {codec.vocabulary:,} symbols are too many: one "
            f"record takes {record / 2**20:,.0f} MiB; shorter records or fewer symbols, please"
        )
    return max(1, fit // share) * share


def of_iterations(plan: Plan, codec: Codec, device: str, iterations: int) -> Plan:
    """The plan with so many steps, half of them in each stage."""
    if iterations < 2:
        raise InputError(f"--iterations: at least 2, got {iterations}")
    second = iterations // 2
    # Each is seen a few times: to make one takes longer than to learn from it.
    once = second * plan.batch
    couples = min(most_couples(codec, device), max(min(once, FEWEST_COUPLES), once // SEEN))
    return replace(
        plan, iterations=iterations - second, second=second, couples=couples,
        compiled=second >= COMPILE_FROM,
    )  # fmt: skip


def check_minutes(minutes: float) -> None:
    if not 0 < minutes < MOST_MINUTES:
        raise InputError(f"minutes: more than 0, less than {MOST_MINUTES:,}, got {minutes:g}")


def fitted(
    plan: Plan, codec: Codec, data: Sequences, device: str, minutes: float, processes: int = 1
) -> tuple[Plan, float]:
    """The plan with as many steps and couples as the minutes allow, after timing each; and the
    minutes that it will take, which are more where even few steps do.

    Of several processes each works on its share of a batch, and that is what is timed.
    """
    check_minutes(minutes)
    started = time.monotonic()
    gpu = torch.device(device).type == "cuda"
    with torch.device("meta"):  # only to see what it is
        most = chunk_size(codec.length, codec.vocabulary, plan.network(codec))
    # Lots are of one size on a GPU, the trial's too: the code that carries one carries all.
    lot = most if gpu else TRIED
    trial = replace(
        plan, iterations=1000, second=1000, couples=lot, compiled=minutes >= WORTH_COMPILING,
        batch=plan.batch // processes,
    )  # fmt: skip
    step, couple, second_step = _paces(trial, codec, data, device, min(lot, most))
    couple /= processes  # they make couples in turn
    # Of another length, the last block would be captured anew, where steps are captured.
    part = plan.block if gpu and processes == plan.accumulate == 1 else 1
    spent = time.monotonic() - started
    left = 60 * minutes * (1 - RESERVED) - spent
    couples = max(FEWEST_COUPLES, int(SHARES[1] * left / couple))
    couples = min(most_couples(codec, device), couples)
    found = replace(
        trial,
        batch=plan.batch,
        iterations=_whole(SHARES[0] * left / step, part),
        couples=max(lot, couples // lot * lot) if gpu else couples,
        second=_whole(SHARES[2] * left / second_step, part),
    )
    taken = found.iterations * step + found.couples * couple + found.second * second_step
    return found, (spent + taken) / 60


def _paces(
    trial: Plan, codec: Codec, data: Sequences, device: str, lot: int
) -> tuple[float, float, float]:
    """Seconds that a step of the first stage takes, a couple, and a step of the second."""
    first, where = trial.problem(codec, data), torch.device(device)
    block = _trial_block(trial, where.type == "cuda")
    trainer = Trainer(first, replace(trial.first, block=block), [0], device)
    step = _pace(trainer, trial.block)
    kernel = trainer.kernels()[0]
    assert isinstance(first.process, OneHotFlow)
    by_code = trial.coupling.worth_compiling(1, where)
    lots = trial.coupling.lots(first.process, kernel, 0, lot, by_code)
    next(lots)  # prepares the code
    couple = _quickest(lambda: next(lots)[1].cpu()) / lot  # a GPU is waited for
    problem = trial.coupling.problem(first, kernel, 0)
    recipe = replace(trial.coupling.recipe, block=block)
    return step, couple, _pace(Trainer(problem, recipe, [0], device), trial.block)


def _whole(steps: float, part: int) -> int:
    """At least 100; a multiple of ``part``, where that is little less."""
    whole = int(steps)
    return max(100, whole if whole < FEW_BLOCKS * part else whole // part * part)


def most_couples(codec: Codec, device: str) -> int:
    """As many as fit into COUPLE_BYTES."""
    room = COUPLE_BYTES[torch.device(device).type]
    return max(TRIED, min(MOST_COUPLES, room // couple_bytes(codec)))


def couple_bytes(codec: Codec) -> int:
    """Of a couple: two for each number of its start; for a symbol at its end, and if it is held."""
    return codec.length * (2 * codec.vocabulary + token_dtype(codec.vocabulary).itemsize + 1)


def count(kernel: Kernel) -> int:
    """Its parameters."""
    return sum(p.numel() for p in kernel.parameters())


def _trial_block(plan: Plan, gpu: bool) -> int:
    """Steps whose time is told first: where none is captured, one, as it may take seconds."""
    return min(plan.block, BLOCK) if gpu else 1


def _pace(trainer: Trainer, most: int) -> float:
    """Seconds a step takes, once its code is prepared; in blocks, where it is quick."""
    blocks = trainer.blocks()
    next(blocks)
    seconds = _quickest(lambda: next(blocks)) / trainer.recipe.block
    if seconds > QUICK or trainer.recipe.block > 1:
        return seconds
    trainer.recipe = replace(trainer.recipe, block=min(most, BLOCK))
    return _quickest(lambda: next(blocks)) / trainer.recipe.block


def _quickest(work: Callable[[], object]) -> float:
    """Seconds: of a few tries the least, lest one that was disturbed decides on the whole run."""
    found: list[float] = []
    while len(found) < FEWEST_TRIES or (len(found) < MOST_TRIES and sum(found) < TRY_SECONDS):
        before = time.monotonic()
        work()
        found.append(time.monotonic() - before)
    return min(found)
