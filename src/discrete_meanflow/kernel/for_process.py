"""Kernels for a process: from a network, or from a denoiser trained elsewhere."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from discrete_meanflow.kernel.base import StateNetwork
from discrete_meanflow.kernel.boundary import BoundaryKernel
from discrete_meanflow.kernel.bridge import BridgeKernel
from discrete_meanflow.kernel.endpoint import EndpointKernel
from discrete_meanflow.kernel.flow_map import FlowMapKernel
from discrete_meanflow.process import MixturePath, OneHotFlow, SequenceProcess
from discrete_meanflow.schedule import Linear
from discrete_meanflow.types import Logits, State, Times

PAPER_SCHEDULE = Linear(1e-6)


def kernel_for(process: SequenceProcess, network: nn.Module) -> EndpointKernel:
    """The kernel of a process: a flow map, ``(1 - alpha) delta + alpha q``, or the bridge."""
    if isinstance(process, OneHotFlow):
        return FlowMapKernel(network, process.states, ordered=process.space.ordered)
    if isinstance(process, MixturePath):
        return BoundaryKernel(network, process.states, PAPER_SCHEDULE, mask=process.token)
    return BridgeKernel(network, process)


def from_denoiser(
    denoiser: Callable[[State, Times], Tensor],
    process: SequenceProcess,
    like: Tensor | None = None,
) -> EndpointKernel:
    """Wrap a denoiser ``(state, time) -> logits of x1`` as a kernel that is exact at t = r.

    In many short steps it samples as the denoiser does; it can be the teacher that a one-step
    kernel is distilled from.

    Args:
        denoiser: a module or a function.
        process: the process the denoiser was trained on.
        like: a tensor with the device and precision of a plain function; a module computes where
            its parameters are. The default is float32 on the CPU.
    """
    return kernel_for(process, Denoiser(denoiser, like))


class Denoiser(StateNetwork):
    """``(x, r, t) -> denoiser(x, r)``."""

    def __init__(
        self, denoiser: Callable[[State, Times], Tensor], like: Tensor | None = None
    ) -> None:
        super().__init__()
        self.denoiser = denoiser
        if not isinstance(denoiser, nn.Module):
            empty = torch.empty(0) if like is None else like.new_empty(0)
            self.register_buffer("like", empty, persistent=False)

    def forward(self, x: State, r: Times, t: Times) -> Logits:
        return self.denoiser(x, r)
