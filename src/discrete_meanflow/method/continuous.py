"""Methods on continuous states: flows of one-hot vectors and their flow maps."""

from collections.abc import Sequence

import torch
from torch import Tensor

from discrete_meanflow.kernel import FlowMapKernel, Kernel
from discrete_meanflow.method.base import MANY, Method
from discrete_meanflow.objective import (
    ConsistencyLoss,
    EulerianLoss,
    LagrangianLoss,
    MeanFlow,
    MomentMatching,
    Objective,
    PairCrossEntropy,
    Phases,
    PosteriorRegression,
    SemigroupLoss,
    Weighted,
    one_hot_flow_bound,
    shortcut,
)
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import KernelSampler, LogitProcessor, ODESampler, Sampler
from discrete_meanflow.times import (
    ClockUniform,
    DyadicTimes,
    Grouped,
    OnDiagonal,
    TimeSampler,
    ToEnd,
)
from discrete_meanflow.types import Tokens

INTERVALS = (8, 16, 32, 64)  # of the decoding clock, for consistency training
PARTICLES = 4  # of a group, as in the paper of inductive moment matching
MEANFLOW_DIAGONAL = 0.75  # fraction of MeanFlow's pairs on the diagonal, as in its paper
DIAGONAL_PHASE = 0.4  # fraction of a flow map's training on the diagonal alone


def on_diagonal(vocabulary: int) -> TimeSampler:
    return OnDiagonal(ClockUniform(vocabulary))


def ode(
    kernel: Kernel, steps: int, processors: Sequence[LogitProcessor], guidance: float
) -> Sampler:
    """The second-order solver."""
    return ODESampler(kernel, steps, processors)


def diagonal_bound(kernel: Kernel, x1: Tokens, g: torch.Generator) -> Tensor:
    """The bound of the flow that the diagonal of a flow map learns."""
    flow_map = kernel.for_step(0.0, 0.0)
    assert isinstance(flow_map, FlowMapKernel)
    return one_hot_flow_bound(flow_map, x1, g)


def restarts(
    kernel: Kernel, steps: int, processors: Sequence[LogitProcessor], guidance: float
) -> Sampler:
    """Maps to time 1 from ever later starts."""
    return KernelSampler.restarts(kernel, steps, processors, guidance)


def self_distilled(off_diagonal: Objective) -> Objective:
    """Cross-entropy on the diagonal, then also self-distillation off it."""
    both = Weighted((1.0, PosteriorRegression()), (1.0, off_diagonal))
    return Phases((DIAGONAL_PHASE, PosteriorRegression()), (1 - DIAGONAL_PHASE, both))


def growing_consistency(states: int) -> Objective:
    """Consistency training with ever shorter steps between the two times."""
    return Phases(*((1 / len(INTERVALS), ConsistencyLoss(states, n)) for n in INTERVALS))


METHODS = {
    "one-step": Method(
        "flow map distilled from teacher pairs, then matched to the teacher; the default",
        OneHotFlow,
        lambda process: PairCrossEntropy(),
        on_diagonal,
        KernelSampler.steps,
        steps=1,
        bound=diagonal_bound,
        distilled=True,
    ),
    "flow-matching": Method(
        "flow matching (Lipman et al. 2023, arXiv:2210.02747) of one-hot vectors",
        OneHotFlow,
        lambda process: PosteriorRegression(),
        on_diagonal,
        ode,
        MANY,
        bound=diagonal_bound,
        guided=False,
    ),
    "psd": Method(
        "progressive self-distillation (Boffi et al. 2025, arXiv:2505.18825), in KL form",
        OneHotFlow,
        lambda process: self_distilled(SemigroupLoss()),
        ClockUniform,
        KernelSampler.steps,
        steps=1,
        bound=diagonal_bound,
    ),
    "lsd": Method(
        "Lagrangian self-distillation (Boffi et al. 2025, arXiv:2505.18825), in KL form",
        OneHotFlow,
        lambda process: self_distilled(LagrangianLoss()),
        ClockUniform,
        KernelSampler.steps,
        steps=1,
        bound=diagonal_bound,
    ),
    "esd": Method(
        "Eulerian self-distillation (Boffi et al. 2025, arXiv:2505.18825), in KL form",
        OneHotFlow,
        lambda process: self_distilled(EulerianLoss()),
        ClockUniform,
        KernelSampler.steps,
        steps=1,
        bound=diagonal_bound,
    ),
    "meanflow": Method(
        "MeanFlow (Geng et al. 2025, arXiv:2505.13447) on one-hot vectors",
        OneHotFlow,
        lambda process: MeanFlow(),
        lambda vocabulary: OnDiagonal(ClockUniform(vocabulary), MEANFLOW_DIAGONAL),
        KernelSampler.steps,
        steps=1,
        bound=diagonal_bound,
    ),
    "consistency": Method(
        "consistency training (Song et al. 2023, arXiv:2303.01469), in KL form",
        OneHotFlow,
        lambda process: growing_consistency(process.states),
        ToEnd,
        restarts,
        steps=1,
    ),
    "shortcut": Method(
        "shortcut models (Frans et al. 2024, arXiv:2410.12557), in KL form",
        OneHotFlow,
        lambda process: shortcut(),
        DyadicTimes,
        KernelSampler.steps,
        steps=1,
        bound=diagonal_bound,
    ),
    "imm": Method(
        "inductive moment matching (Zhou et al. 2025, arXiv:2503.07565)",
        OneHotFlow,
        lambda process: MomentMatching(process.states, PARTICLES),
        lambda vocabulary: Grouped(ClockUniform(vocabulary), PARTICLES),
        KernelSampler.steps,
        steps=1,
        multiple=PARTICLES,
    ),
}
