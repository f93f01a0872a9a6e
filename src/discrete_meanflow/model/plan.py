"""The plan of a run: network, problem and recipes of the training stages."""

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from discrete_meanflow.data import Sequences
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.codec import Codec
from discrete_meanflow.kernel import FlowMapKernel, Kernel, MatchedFlowMap
from discrete_meanflow.method import Method, find_method
from discrete_meanflow.model.plan_limits import check_plan
from discrete_meanflow.network import CausalLogitMask, CausalTransformer, DiT, FlatMLP, LogitMask
from discrete_meanflow.process import (
    FewPositions,
    FixedPositions,
    MixedPositions,
    ObservedPositions,
    OneHotFlow,
    PrefixPositions,
    RandomPositions,
    SequenceProcess,
    UnionPositions,
)
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.training import (
    FlowMapDistillation,
    MatchingDistillation,
    Problem,
    Recipe,
)

# What every plan shares.
WEIGHT_DECAY = 0.01
EMA_DECAY = 0.999
MATCHING_WORK = 10 / 3  # of a step of the third stage: student 6, fake network 3, teacher 1 pass
MATCHING_RATE = 0.15  # learning rate of the third stage over that of the others
OBSERVED_FRACTION = 0.5  # of the sequences, in which some positions are observed
STEPS = ("teacher_steps", "student_steps", "matching_steps")  # of the stages


@dataclass(frozen=True)
class Stage:
    """A stage of training.

    Args:
        name: what it trains.
        steps: optimiser steps.
        recipe: how it is optimised.
        largest_loss: relative to its first loss or to the loss of a uniform guess; above it,
            training has diverged.
    """

    name: str
    steps: int
    recipe: Recipe
    largest_loss: float = 3.0


@dataclass(frozen=True)
class Plan:
    """What a run trains and how.

    Args:
        teacher_steps: optimiser steps of the first stage, on the diagonal r = t; of a method
            without distillation, all steps.
        student_steps: optimiser steps of the second stage, flow-map distillation.
        teacher_pairs: pairs (X_r, X_t) on trajectories of the teacher.
        ode_steps: steps of a teacher's trajectory from noise to data.
        batch: records per step.
        learning_rate: its peak.
        seed: random seed.
        bf16: whether networks compute in bfloat16.
        width, layers: size of the network.
        heads: attention heads; 0: an MLP over the flattened state.
        compiled: whether the step is compiled.
        accumulate: gradient accumulation steps.
        block: steps whose training paths are drawn at once.
        minibatch_ot: group size of minibatch optimal transport; 0: none. The third stage needs
            noise that is independent of the data.
        muon_ratio: learning rate of Muon relative to that of AdamW; 0: AdamW only.
        matching_steps: optimiser steps of the third stage, distribution matching; 0: none.
        method: name of the method.
    """

    teacher_steps: int
    student_steps: int
    teacher_pairs: int
    ode_steps: int
    batch: int
    learning_rate: float
    seed: int
    bf16: bool
    width: int
    layers: int
    heads: int
    compiled: bool = False
    accumulate: int = 1
    block: int = 100
    minibatch_ot: int = 0
    muon_ratio: float = 0.0
    matching_steps: int = 0
    method: str = "one-step"

    def __post_init__(self) -> None:
        check_plan(self)

    @property
    def system(self) -> Method:
        """The method."""
        return find_method(self.method)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages, in order."""
        first = self._recipe(self.teacher_steps, self.batch)
        if not self.system.distilled:
            return (Stage("training", self.teacher_steps, first),)
        stages = (
            Stage("teacher", self.teacher_steps, first),
            Stage("student", self.student_steps, self.distillation.recipe),
        )
        if not self.matching_steps:
            return stages
        # The loss is that of the fake network, which must not be much worse than a guess.
        return (*stages, Stage("matching", self.matching_steps, self.matching.recipe, 1.5))

    @property
    def steps(self) -> int:
        """Optimiser steps of all stages."""
        return self.teacher_steps + self.student_steps + self.matching_steps

    def stage_at(self, step: int) -> int:
        """The stage, from 0, in which a step (from 1) of the run is taken."""
        return int(step > self.teacher_steps) + int(step > self.teacher_steps + self.student_steps)

    def with_steps(self, stage: int, steps: int) -> "Plan":
        """The plan with other steps of a stage; 0 leaves them."""
        changes: Json = {STEPS[stage]: steps} if steps else {}
        return replace(self, **changes)

    @property
    def parameters(self) -> float:
        """Approximate number of parameters, without embeddings and head."""
        return float((12 if self.heads else 4) * self.width**2 * self.layers)

    def samples_in_bf16(self, device: torch.device) -> bool:
        """Whether sampling uses bfloat16: as in training, but not on a CPU, where it is slow."""
        return self.bf16 and device.type == "cuda"

    @property
    def distillation(self) -> FlowMapDistillation:
        """The second stage."""
        recipe = self._recipe(self.student_steps, self.batch)
        return FlowMapDistillation(self.teacher_pairs, self.ode_steps, recipe)

    @property
    def matching(self) -> MatchingDistillation:
        """The third stage."""
        recipe = self._recipe(max(1, self.matching_steps), 2 * self.batch)
        rate = MATCHING_RATE * self.learning_rate
        return MatchingDistillation(replace(recipe, learning_rate=rate))

    def default_steps(self, codec: Codec) -> int:
        """Function evaluations per record unless the user asks for others."""
        return self.system.steps or codec.length

    def evaluated_steps(self, codec: Codec, steps: tuple[int, ...]) -> tuple[int, ...]:
        """The numbers of steps that can be evaluated: a causal model takes one per position."""
        return (codec.length,) if self.system.causal else steps

    def work_done(self, steps: int, pairs: float) -> float:
        """The fraction of the work done after ``steps`` and a fraction ``pairs`` of the pairs.

        A step of the third stage has twice the batch and evaluates two more networks. A teacher
        pair takes one forward pass per ODE step, each a third of a training step on one record.
        """
        return self._work(steps, pairs) / self._work(self.steps, 1)

    def _work(self, steps: int, pairs: float) -> float:
        matching = max(0, steps - self.teacher_steps - self.student_steps)
        evaluations = pairs * self.teacher_pairs * self.ode_steps
        return steps + (MATCHING_WORK - 1) * matching + evaluations / (3 * self.batch)

    def _recipe(self, iterations: int, batch: int) -> Recipe:
        return Recipe(
            iterations,
            batch,
            self.learning_rate,
            weight_decay=WEIGHT_DECAY,
            ema_decay=EMA_DECAY,
            tf32=True,
            bf16=self.bf16,
            compiled=self.compiled,
            accumulate=self.accumulate,
            block=self.block,
            muon_ratio=self.muon_ratio,
        )

    def process(self, codec: Codec) -> SequenceProcess:
        if self.minibatch_ot:
            return OneHotFlow(codec.vocabulary, self.minibatch_ot)
        if self.system.continuous:
            return OneHotFlow(codec.vocabulary, ordered=codec.ordered)
        return self.system.process(codec.vocabulary)

    def network(self, codec: Codec) -> nn.Module:
        """The network over the states of the process, whose noise may add symbols."""
        states, length = self.process(codec).states, codec.length
        noise, shape = states - codec.vocabulary, (self.width, self.layers)
        network: nn.Module
        if self.system.causal:
            network = CausalTransformer(states, length, *shape, self.heads)
            return CausalLogitMask.with_noise(network, allowed_symbols(codec), noise)
        if self.heads:
            network = DiT(states, length, *shape, self.heads)
        else:
            network = FlatMLP(states, length, *shape)
        if codec.allowed is None and not noise:
            return network
        return LogitMask.with_noise(network, allowed_symbols(codec), noise)

    def kernel_of(self, codec: Codec, process: SequenceProcess) -> Kernel:
        """What the method's only or first two stages train."""
        return self.system.kernel(process, self.network(codec))

    def flow_map(self, codec: Codec) -> FlowMapKernel:
        """What the first two stages of a distilled flow map train."""
        process = self.process(codec)
        assert isinstance(process, OneHotFlow)
        return FlowMapKernel(self.network(codec), codec.vocabulary, ordered=process.space.ordered)

    def kernel(self, codec: Codec) -> Kernel:
        """The result of all stages."""
        if not self.matching_steps:
            return self.kernel_of(codec, self.process(codec))
        return MatchedFlowMap(self.flow_map(codec), self.flow_map(codec))

    def parameter_count(self, codec: Codec) -> int:
        """The exact number of parameters of one network; no memory is allocated for them."""
        with torch.device("meta"):
            return sum(p.numel() for p in self.network(codec).parameters())

    def problem(self, codec: Codec, data: Sequences) -> Problem:
        """The problem of the only or first stage.

        Of a distilled flow map: cross-entropy at t = r, which is posterior regression. It has the
        objective of the second stage, so both share compiled code.
        """
        process, conditioning = self.process(codec), self._conditioning(codec)
        return self.system.problem(process, lambda: self.network(codec), data, conditioning)

    def _conditioning(self, codec: Codec) -> ObservedPositions:
        """Which positions are observed; a causal network always sees those before."""
        if self.system.causal:
            return RandomPositions(0.0)
        masks = RandomPositions(1.0), FewPositions(1.0), PrefixPositions(1.0)
        conditioning = MixedPositions(OBSERVED_FRACTION, *masks)
        if not codec.class_positions:
            return conditioning
        return UnionPositions(FixedPositions(codec.class_positions), conditioning)

    def describe(self) -> Json:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Any) -> "Plan":
        try:
            return cls(**{field.name: content[field.name] for field in fields(cls)})
        except (KeyError, TypeError) as error:
            raise InputError(f"the plan lacks {error}") from None


def without_steps(plan: Plan) -> Json:
    """What a plan says besides the lengths of its stages."""
    lengths = (*STEPS, "teacher_pairs")
    return {name: value for name, value in plan.describe().items() if name not in lengths}


def allowed_symbols(codec: Codec) -> Tensor:
    """Which symbols each position may have: bool ``(D, V)``."""
    if codec.allowed is None:
        return torch.ones(codec.length, codec.vocabulary, dtype=torch.bool)
    return codec.allowed
