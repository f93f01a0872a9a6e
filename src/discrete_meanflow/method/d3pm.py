"""D3PM: Austin et al. 2021, arXiv:2107.03006.

A chain of T noising steps, absorbing or uniform, and a denoiser q of x1 that reverses it. Loss:
``sum_i KL(K_{r,t}(. | x_r, x1), sum_{x1'} K_{r,t}(. | x_r, x1') q(x1' | x_r)) - c log q(x1 | x_r)``
with ``r = i/T, t = (i + 1)/T``. Sampler: ancestral, in any number of even steps.

It differs from the paper in the uniform chain: the noise level is linear in time instead of a
cosine, and q is the posterior of x1 instead of that divided by ``p_r(x_r | x1)``.
"""

import torch
from torch import Tensor

from discrete_meanflow.kernel import BridgeKernel, Kernel
from discrete_meanflow.method.base import MANY, Method
from discrete_meanflow.method.jump_process import bridge
from discrete_meanflow.objective import TransitionKL, transition_bound
from discrete_meanflow.process import Masking, UniformDiffusion
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.times import GridTimes, TimeSampler
from discrete_meanflow.types import Tokens

STEPS = 1000  # T
# Weight c of the auxiliary cross-entropy: 0.001 for the bound of one of the steps, as published.
# Here the bound is that of all steps.
CE_WEIGHT = 0.001 * STEPS


def grid_times(vocabulary: int) -> TimeSampler:
    return GridTimes(STEPS)


def chain_bound(kernel: Kernel, x1: Tokens, g: torch.Generator) -> Tensor:
    """The bound of the chain of T steps."""
    assert isinstance(kernel, BridgeKernel)
    return transition_bound(kernel, x1, g, STEPS)


METHODS = {
    "d3pm": Method(
        "D3PM (Austin et al. 2021, arXiv:2107.03006), absorbing: variational bound and CE",
        Masking,
        lambda process: TransitionKL(STEPS, CE_WEIGHT),
        grid_times,
        KernelSampler.steps,
        MANY,
        bridge,
        chain_bound,
    ),
    "d3pm-uniform": Method(
        "D3PM (Austin et al. 2021, arXiv:2107.03006), uniform: variational bound and CE",
        UniformDiffusion,
        lambda process: TransitionKL(STEPS, CE_WEIGHT),
        grid_times,
        KernelSampler.steps,
        MANY,
        bridge,
        chain_bound,
    ),
}
