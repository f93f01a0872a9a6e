"""From a network, or from a denoiser trained elsewhere, to the kernel that suits a process."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from discrete_meanflow.kernel.boundary import BoundaryKernel
from discrete_meanflow.kernel.bridge import BridgeKernel
from discrete_meanflow.kernel.endpoint import EndpointKernel
from discrete_meanflow.kernel.flow_map import FlowMapKernel
from discrete_meanflow.process import MixturePath, OneHotFlow, SequenceProcess
from discrete_meanflow.schedule import Linear
from discrete_meanflow.types import Logits, State, Times

PAPERS = Linear(1e-6)


def kernel_on(process: SequenceProcess, network: nn.Module) -> EndpointKernel:
    """Soft states, ``(1 - alpha) delta + alpha q``, or the bridge: whichever the process has."""
    if isinstance(process, OneHotFlow):
        return FlowMapKernel(network, process.states)
    if isinstance(process, MixturePath):
        return BoundaryKernel(network, PAPERS, mask=getattr(process, "token", None))
    return BridgeKernel(network, process)


def from_denoiser(
    denoiser: Callable[[State, Times], Tensor],
    process: SequenceProcess,
    home: Tensor | None = None,
) -> EndpointKernel:
    """A denoiser ``(state, time) -> logits`` of x1 as a kernel: exact on the diagonal t = r.

    Over many short steps it samples as the denoiser did; it is the teacher that a one-step
    kernel is distilled from. A module computes where its parameters are; of a plain function a
    tensor ``home`` tells device and precision, by default the CPU and float32.
    """
    return kernel_on(process, Denoiser(denoiser, home))


class Denoiser(nn.Module):
    """``(x, r, t) -> denoiser(x, r)``."""

    def __init__(
        self, denoiser: Callable[[State, Times], Tensor], home: Tensor | None = None
    ) -> None:
        super().__init__()
        self.denoiser = denoiser  # a module among the parts, if it is one
        if not isinstance(denoiser, nn.Module):
            empty = torch.empty(0) if home is None else home.new_empty(0)
            self.register_buffer("at_home", empty, persistent=False)

    def forward(self, x: State, r: Times, t: Times) -> Logits:
        return self.denoiser(x, r)
