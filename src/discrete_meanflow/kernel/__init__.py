"""Learned transition kernels K_theta(y, x, r, t): a network and the law built from its logits."""

from discrete_meanflow.kernel.base import Kernel
from discrete_meanflow.kernel.boundary import BoundaryKernel
from discrete_meanflow.kernel.bridge import BridgeKernel
from discrete_meanflow.kernel.denoiser import from_denoiser, kernel_for
from discrete_meanflow.kernel.endpoint import EndpointKernel
from discrete_meanflow.kernel.exact_posterior import ExactPosterior
from discrete_meanflow.kernel.flow_map import FlowMapKernel
from discrete_meanflow.kernel.unconstrained import UnconstrainedKernel

__all__ = [
    "BoundaryKernel",
    "BridgeKernel",
    "EndpointKernel",
    "ExactPosterior",
    "FlowMapKernel",
    "Kernel",
    "UnconstrainedKernel",
    "from_denoiser",
    "kernel_for",
]
