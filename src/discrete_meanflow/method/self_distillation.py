"""Self-distilled flow maps: Boffi et al. 2025, arXiv:2505.18825.

Cross-entropy on the diagonal, and off it one of three identities of ``X_{r,t}``, whose right-hand
side comes from the map itself: PSD, ``X_{r,t} = X_{s,t}(X_{r,s})``; LSD,
``dX_{r,t}/dt = (q(X_{r,t}, t, t) - X_{r,t})/(1 - t)``; ESD, ``dX_{r,t}(x_r)/dr = 0`` along the
flow. Sampler: one step of the map, or several.

They differ from the paper in the loss: the divergence of the laws q instead of squares.
"""

from discrete_meanflow.method.base import Method
from discrete_meanflow.method.flow_map import diagonal_bound
from discrete_meanflow.objective import (
    EulerianLoss,
    LagrangianLoss,
    Objective,
    Phases,
    PosteriorRegression,
    SemigroupLoss,
    Weighted,
)
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.times import ClockUniform

DIAGONAL_PHASE = 0.4  # fraction of the training on the diagonal alone


def self_distilled(off_diagonal: Objective) -> Objective:
    """Cross-entropy on the diagonal, then also self-distillation off it."""
    both = Weighted((1.0, PosteriorRegression()), (1.0, off_diagonal))
    return Phases((DIAGONAL_PHASE, PosteriorRegression()), (1 - DIAGONAL_PHASE, both))


METHODS = {
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
}
