"""Parts that several methods on continuous states share."""

import torch
from torch import Tensor

from discrete_meanflow.kernel import FlowMapKernel, Kernel
from discrete_meanflow.objective import one_hot_flow_bound
from discrete_meanflow.times import ClockUniform, OnDiagonal, TimeSampler
from discrete_meanflow.types import Tokens


def on_diagonal(vocabulary: int) -> TimeSampler:
    return OnDiagonal(ClockUniform(vocabulary))


def diagonal_bound(kernel: Kernel, x1: Tokens, g: torch.Generator) -> Tensor:
    """The bound of the flow that the diagonal of a flow map learns."""
    flow_map = kernel.for_step(0.0, 0.0)
    assert isinstance(flow_map, FlowMapKernel)
    return one_hot_flow_bound(flow_map, x1, g)
