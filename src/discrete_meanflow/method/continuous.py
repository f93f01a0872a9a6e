"""Methods on continuous states: flows of one-hot vectors and their flow maps."""

from collections.abc import Sequence

from discrete_meanflow.kernel import FlowMapKernel, Kernel
from discrete_meanflow.method.base import MANY, Method, without_guidance
from discrete_meanflow.objective import (
    LagrangianLoss,
    Objective,
    PairCrossEntropy,
    Phases,
    PosteriorRegression,
    SemigroupLoss,
    Weighted,
)
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import KernelSampler, LogitProcessor, ODESampler, Sampler
from discrete_meanflow.times import ClockUniform, OnDiagonal, TimeSampler

DIAGONAL_PHASE = 0.4  # fraction of a flow map's training on the diagonal alone


def on_diagonal(vocabulary: int) -> TimeSampler:
    return OnDiagonal(ClockUniform(vocabulary))


def ode(kernel: Kernel, steps: int, processors: Sequence[LogitProcessor]) -> Sampler:
    """The second-order solver, which draws nothing."""
    assert isinstance(kernel, FlowMapKernel)
    return ODESampler(kernel, steps)


def self_distilled(off_diagonal: Objective) -> Objective:
    """Cross-entropy on the diagonal, then also self-distillation off it."""
    both = Weighted((1.0, PosteriorRegression()), (1.0, off_diagonal))
    return Phases((DIAGONAL_PHASE, PosteriorRegression()), (1 - DIAGONAL_PHASE, both))


METHODS = {
    "one-step": Method(
        "flow map distilled from teacher pairs, then matched to the teacher; the default",
        OneHotFlow,
        lambda process: PairCrossEntropy(),
        on_diagonal,
        KernelSampler.steps,
        steps=1,
        distilled=True,
    ),
    "flow-matching": Method(
        "flow matching (Lipman et al. 2023, arXiv:2210.02747) of one-hot vectors",
        OneHotFlow,
        lambda process: PosteriorRegression(),
        on_diagonal,
        without_guidance(ode),
        steps=MANY,
    ),
    "psd": Method(
        "progressive self-distillation (Boffi et al. 2025, arXiv:2505.18825), in KL form",
        OneHotFlow,
        lambda process: self_distilled(SemigroupLoss()),
        ClockUniform,
        KernelSampler.steps,
        steps=1,
    ),
    "lsd": Method(
        "Lagrangian self-distillation (Boffi et al. 2025, arXiv:2505.18825), in KL form",
        OneHotFlow,
        lambda process: self_distilled(LagrangianLoss()),
        ClockUniform,
        KernelSampler.steps,
        steps=1,
    ),
}
