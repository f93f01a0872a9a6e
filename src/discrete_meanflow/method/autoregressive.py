"""The autoregressive Transformer: Radford et al. 2019; what users would pick instead.

``p(x) = prod_d p(x_d | x_1, ..., x_{d-1})`` by a causal network of the same size. Loss:
``-log p(x_d | x_1, ..., x_{d-1})``, whose sum is the exact likelihood. Sampler: one position per
step; keys and values of earlier ones are cached.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import AutoregressiveKernel, Kernel
from discrete_meanflow.method.base import Method
from discrete_meanflow.network import CausalLogitMask
from discrete_meanflow.objective import NextToken
from discrete_meanflow.process import Masking, SequenceProcess
from discrete_meanflow.sampler import AutoregressiveSampler, LogitProcessor, Sampler
from discrete_meanflow.times import OneTime
from discrete_meanflow.types import Tokens

COMPILE_FROM = 200  # positions


def chain_rule(process: SequenceProcess, network: nn.Module) -> Kernel:
    assert isinstance(process, Masking)
    assert isinstance(network, CausalLogitMask)
    return AutoregressiveKernel(network, process.states, process.token)


def left_to_right(
    kernel: Kernel, steps: int, processors: Sequence[LogitProcessor], guidance: float
) -> Sampler:
    assert isinstance(kernel, AutoregressiveKernel)
    if steps != kernel.length:
        raise InputError(
            f"autoregressive: takes one step for each of {kernel.length} positions, not {steps}"
        )
    compiled = kernel.device.type == "cuda" and kernel.length >= COMPILE_FROM
    return AutoregressiveSampler(kernel, processors, compiled)


def exact_nll(kernel: Kernel, x1: Tokens, g: torch.Generator) -> Tensor:
    assert isinstance(kernel, AutoregressiveKernel)
    return -kernel.log_prob(x1)


METHODS = {
    "autoregressive": Method(
        "causal Transformer with a cache of keys and values (Radford et al. 2019)",
        Masking,
        lambda process: NextToken(),
        lambda vocabulary: OneTime(),
        left_to_right,
        0,
        chain_rule,
        exact_nll,
        causal=True,
        guided=False,
    ),
}
