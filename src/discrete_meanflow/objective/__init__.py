"""Training objectives: each maps (kernel, path) to a scalar loss."""

from discrete_meanflow.objective.base import Needs, Objective
from discrete_meanflow.objective.boundary_penalty import BoundaryPenalty
from discrete_meanflow.objective.cross_entropy import (
    KernelCE,
    PairCrossEntropy,
    PosteriorRegression,
)
from discrete_meanflow.objective.estimator import (
    Estimator,
    ExactExpectation,
    ModelExpectation,
    RaoBlackwell,
    SampledRate,
)
from discrete_meanflow.objective.hybrid import hybrid
from discrete_meanflow.objective.kernel_residual import KernelResidual, remaining_time
from discrete_meanflow.objective.phases import Phases
from discrete_meanflow.objective.residual_kl import ResidualKL
from discrete_meanflow.objective.self_distillation import (
    DenoiserDistillation,
    LagrangianLoss,
    SemigroupLoss,
)
from discrete_meanflow.objective.time_derivative import finite_difference, forward_mode
from discrete_meanflow.objective.transition_likelihood import TransitionLikelihood
from discrete_meanflow.objective.weighted import Weighted

__all__ = [
    "BoundaryPenalty",
    "DenoiserDistillation",
    "Estimator",
    "ExactExpectation",
    "KernelCE",
    "KernelResidual",
    "LagrangianLoss",
    "ModelExpectation",
    "Needs",
    "Objective",
    "PairCrossEntropy",
    "Phases",
    "PosteriorRegression",
    "RaoBlackwell",
    "ResidualKL",
    "SampledRate",
    "SemigroupLoss",
    "TransitionLikelihood",
    "Weighted",
    "finite_difference",
    "forward_mode",
    "hybrid",
    "remaining_time",
]
