"""Learned transition kernels K_theta(y, x, r, t): a network and the law built from its logits."""

from discrete_meanflow.kernel.autoregressive import AutoregressiveKernel as AutoregressiveKernel
from discrete_meanflow.kernel.base import (
    Kernel as Kernel,
    RateKernel as RateKernel,
    StateNetwork as StateNetwork,
)
from discrete_meanflow.kernel.boundary import BoundaryKernel as BoundaryKernel
from discrete_meanflow.kernel.bridge import BridgeKernel as BridgeKernel
from discrete_meanflow.kernel.endpoint import EndpointKernel as EndpointKernel
from discrete_meanflow.kernel.euler import EulerKernel as EulerKernel, RateTerm as RateTerm
from discrete_meanflow.kernel.exact_posterior import ExactPosterior as ExactPosterior
from discrete_meanflow.kernel.flow_map import FlowMapKernel as FlowMapKernel
from discrete_meanflow.kernel.for_process import (
    from_denoiser as from_denoiser,
    kernel_for as kernel_for,
)
from discrete_meanflow.kernel.matched import MatchedFlowMap as MatchedFlowMap
from discrete_meanflow.kernel.rate_terms import (
    DetailedBalance as DetailedBalance,
    Redraw as Redraw,
    TargetGuidance as TargetGuidance,
)
from discrete_meanflow.kernel.score import (
    MaskScoreKernel as MaskScoreKernel,
    ScoreKernel as ScoreKernel,
    UniformScoreKernel as UniformScoreKernel,
)
from discrete_meanflow.kernel.student_and_fake import StudentAndFake as StudentAndFake
from discrete_meanflow.kernel.unconstrained import UnconstrainedKernel as UnconstrainedKernel
