"""Training objectives: each maps (kernel, path) to a scalar loss."""

from discrete_meanflow.objective.base import Needs as Needs, Objective as Objective
from discrete_meanflow.objective.boundary_penalty import BoundaryPenalty as BoundaryPenalty
from discrete_meanflow.objective.consistency import ConsistencyLoss as ConsistencyLoss
from discrete_meanflow.objective.cross_entropy import (
    KernelCE as KernelCE,
    PairCrossEntropy as PairCrossEntropy,
    PosteriorRegression as PosteriorRegression,
)
from discrete_meanflow.objective.distribution_matching import (
    DistributionMatching as DistributionMatching,
)
from discrete_meanflow.objective.estimator import (
    Estimator as Estimator,
    ExactExpectation as ExactExpectation,
    ModelExpectation as ModelExpectation,
    RaoBlackwell as RaoBlackwell,
    SampledRate as SampledRate,
)
from discrete_meanflow.objective.eulerian import EulerianLoss as EulerianLoss
from discrete_meanflow.objective.kernel_residual import (
    KernelResidual as KernelResidual,
    remaining_time as remaining_time,
)
from discrete_meanflow.objective.likelihood_bound import (
    bits_per_symbol as bits_per_symbol,
    one_hot_flow_bound as one_hot_flow_bound,
    rate_bound as rate_bound,
    transition_bound as transition_bound,
)
from discrete_meanflow.objective.mean_flow import MeanFlow as MeanFlow
from discrete_meanflow.objective.moment_matching import MomentMatching as MomentMatching
from discrete_meanflow.objective.next_token import NextToken as NextToken
from discrete_meanflow.objective.phases import Phases as Phases
from discrete_meanflow.objective.rate_kl import RateKL as RateKL
from discrete_meanflow.objective.residual_kl import ResidualKL as ResidualKL
from discrete_meanflow.objective.self_distillation import (
    DenoiserDistillation as DenoiserDistillation,
    LagrangianLoss as LagrangianLoss,
    SemigroupLoss as SemigroupLoss,
)
from discrete_meanflow.objective.shortcut import OnFraction as OnFraction, shortcut as shortcut
from discrete_meanflow.objective.time_derivative import (
    finite_difference as finite_difference,
    forward_mode as forward_mode,
)
from discrete_meanflow.objective.transition_kl import TransitionKL as TransitionKL
from discrete_meanflow.objective.transition_likelihood import (
    TransitionLikelihood as TransitionLikelihood,
)
from discrete_meanflow.objective.weighted import Weighted as Weighted, hybrid as hybrid
