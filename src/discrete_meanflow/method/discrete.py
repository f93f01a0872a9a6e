"""Methods on discrete states: jump processes and their kernels."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from discrete_meanflow.kernel import (
    BoundaryKernel,
    BridgeKernel,
    DetailedBalance,
    EulerKernel,
    Kernel,
    MaskScoreKernel,
    RateKernel,
    RateTerm,
    UniformScoreKernel,
)
from discrete_meanflow.method.base import MANY, Method, SamplerFactory
from discrete_meanflow.network import DiagonalNetwork, TimelessNetwork
from discrete_meanflow.objective import (
    KernelCE,
    PosteriorRegression,
    RateKL,
    TransitionKL,
    rate_bound,
    transition_bound,
)
from discrete_meanflow.process import (
    Masking,
    MixturePath,
    SequenceProcess,
    Uniform,
    UniformDiffusion,
)
from discrete_meanflow.sampler import CachedSampler, KernelSampler, LogitProcessor, Sampler
from discrete_meanflow.schedule import (
    Distorted,
    Distortion,
    Linear,
    distorted_grid,
    identity,
    polydec,
)
from discrete_meanflow.times import GridTimes, OneTime, TimeSampler, UniformGap
from discrete_meanflow.types import Tokens

GAP = 0.02  # smallest t - r of kernel-CE, as in the paper
D3PM_STEPS = 1000  # of its chain
# Weight of the auxiliary cross-entropy: 0.001 for the bound of one of the steps, as published. Here
# the bound is that of all steps.
D3PM_CE = 0.001 * D3PM_STEPS
ETA = 1.0  # stochasticity of Campbell et al.


def boundary(process: SequenceProcess, network: nn.Module) -> Kernel:
    """The paper's kernel; at t = 1 every mask is replaced."""
    assert isinstance(process, Masking)
    return BoundaryKernel(network, process.states, Linear(), process.token)


def bridge(process: SequenceProcess, network: nn.Module) -> Kernel:
    """The reverse process of a denoiser, which sees one time."""
    mask = process.token if isinstance(process, MixturePath) else None
    return BridgeKernel(DiagonalNetwork(network), process, mask)


def timeless_bridge(process: SequenceProcess, network: nn.Module) -> Kernel:
    mask = process.token if isinstance(process, MixturePath) else None
    return BridgeKernel(TimelessNetwork(network), process, mask)


def mask_score(process: SequenceProcess, network: nn.Module) -> Kernel:
    assert isinstance(process, Masking)
    return MaskScoreKernel(DiagonalNetwork(network), process)


def uniform_score(process: SequenceProcess, network: nn.Module) -> Kernel:
    assert isinstance(process, UniformDiffusion)
    return UniformScoreKernel(DiagonalNetwork(network), process)


def below_one(vocabulary: int) -> TimeSampler:
    """Rates are infinite at time 1; training stops before."""
    return OneTime()


def grid_times(vocabulary: int) -> TimeSampler:
    return GridTimes(D3PM_STEPS)


def chain_bound(kernel: Kernel, x1: Tokens, g: torch.Generator) -> Tensor:
    """The bound of D3PM's chain."""
    assert isinstance(kernel, BridgeKernel)
    return transition_bound(kernel, x1, g, D3PM_STEPS)


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


METHODS = {
    "d3pm": Method(
        "D3PM (Austin et al. 2021, arXiv:2107.03006), absorbing: variational bound and CE",
        Masking,
        lambda process: TransitionKL(D3PM_STEPS, D3PM_CE),
        grid_times,
        KernelSampler.steps,
        MANY,
        bridge,
        chain_bound,
    ),
    "d3pm-uniform": Method(
        "D3PM (Austin et al. 2021, arXiv:2107.03006), uniform: variational bound and CE",
        UniformDiffusion,
        lambda process: TransitionKL(D3PM_STEPS, D3PM_CE),
        grid_times,
        KernelSampler.steps,
        MANY,
        bridge,
        chain_bound,
    ),
    "sedd": Method(
        "SEDD (Lou et al. 2024, arXiv:2310.16834), absorbing: score entropy, Tweedie steps",
        Masking,
        lambda process: RateKL(),
        below_one,
        KernelSampler.steps,
        MANY,
        mask_score,
        path_bound,
    ),
    "sedd-uniform": Method(
        "SEDD (Lou et al. 2024, arXiv:2310.16834), uniform: score entropy, Tweedie steps",
        UniformDiffusion,
        lambda process: RateKL(),
        lambda vocabulary: OneTime(UniformScoreKernel.earliest),
        KernelSampler.steps,
        MANY,
        uniform_score,
        path_bound,
        same_symbols=True,
    ),
    "mdlm": Method(
        "MDLM (Sahoo et al. 2024, arXiv:2406.07524): weighted CE, cached ancestral sampling",
        Masking,
        lambda process: RateKL(),
        below_one,
        CachedSampler.steps,
        MANY,
        timeless_bridge,
        path_bound,
        guided=False,
    ),
    "dfm": Method(
        "discrete flow matching (Gat et al. 2024, arXiv:2407.15595), masks: CE, Euler steps",
        Masking,
        lambda process: PosteriorRegression(),
        below_one,
        euler(),
        MANY,
        bridge,
        path_bound,
    ),
    "dfm-uniform": Method(
        "discrete flow matching (Gat et al. 2024, arXiv:2407.15595), uniform: generalised KL",
        Uniform,
        lambda process: RateKL(),
        below_one,
        euler(),
        MANY,
        bridge,
        path_bound,
    ),
    "campbell": Method(
        "CTMC flows (Campbell et al. 2024, arXiv:2402.04997): masks, stochastic Euler steps",
        Masking,
        lambda process: PosteriorRegression(),
        below_one,
        euler(DetailedBalance(ETA)),
        MANY,
        bridge,
        path_bound,
    ),
    "defog": Method(
        "DeFoG (Qin et al. 2025, arXiv:2410.04263): uniform noise, distorted times, CE",
        Uniform,
        lambda process: PosteriorRegression(),
        lambda vocabulary: Distorted(below_one(vocabulary), polydec),
        euler(distortion=polydec),
        MANY,
        bridge,
        path_bound,
    ),
    "kernel-ce": Method(
        "Discrete MeanFlow as in its paper (arXiv:2605.12805): masking and kernel-CE",
        Masking,
        lambda process: KernelCE(),
        lambda vocabulary: UniformGap(GAP),
        KernelSampler.steps,
        1,
        boundary,
    ),
}
