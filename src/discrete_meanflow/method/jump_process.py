"""Parts that several methods on discrete states share."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from discrete_meanflow.kernel import BridgeKernel, EulerKernel, Kernel, RateKernel, RateTerm
from discrete_meanflow.method.base import SamplerFactory
from discrete_meanflow.network import DiagonalNetwork
from discrete_meanflow.objective import rate_bound
from discrete_meanflow.process import MixturePath, SequenceProcess
from discrete_meanflow.sampler import KernelSampler, LogitProcessor, Sampler
from discrete_meanflow.schedule import Distortion, distorted_grid, identity
from discrete_meanflow.times import OneTime, TimeSampler
from discrete_meanflow.types import Tokens


def bridge(process: SequenceProcess, network: nn.Module) -> Kernel:
    """The reverse process of a denoiser, which sees one time."""
    return BridgeKernel(DiagonalNetwork(network), process, mask_of(process))


def mask_of(process: SequenceProcess) -> int | None:
    """The noise symbol, if there is only one."""
    return process.token if isinstance(process, MixturePath) else None


def below_one(vocabulary: int) -> TimeSampler:
    """Rates are infinite at time 1; training stops before."""
    return OneTime()


def path_bound(kernel: Kernel, x1: Tokens, g: torch.Generator) -> Tensor:
    """The bound of the process in continuous time."""
    assert isinstance(kernel, RateKernel)
    return rate_bound(kernel, x1, g)


def euler(*terms: RateTerm, distortion: Distortion = identity) -> SamplerFactory:
    """Steps of constant rates, with rates to add, on a distorted grid."""

    def sampler(
        kernel: Kernel, steps: int, processors: Sequence[LogitProcessor], guidance: float
    ) -> Sampler:
        assert isinstance(kernel, RateKernel)
        grid = distorted_grid(steps, distortion)
        return KernelSampler(EulerKernel(kernel, *terms), grid, processors, guidance)

    return sampler
