"""SEDD: Lou et al. 2024, arXiv:2310.16834.

The network gives scores ``s(y) = p_r(y)/p_r(x)`` of sequences that differ from x in one position.
Loss, score entropy: ``sum_{y != x} w_y (s_theta(y) - s log s_theta(y) + s log s - s)``, where s is
the score given x1 and ``w_y = Q[x, y]/r`` the rate of the noise: absorbing or uniform, with the
paper's log-linear schedule. Sampler: analytic (Tweedie) steps; the last one is the denoiser. For
Euler steps, wrap the kernel: ``EulerKernel(kernel)``.
"""

from torch import nn

from discrete_meanflow.kernel import Kernel, MaskScoreKernel, UniformScoreKernel
from discrete_meanflow.method.base import MANY, Method
from discrete_meanflow.method.jump_process import below_one, path_bound
from discrete_meanflow.network import DiagonalNetwork
from discrete_meanflow.objective import RateKL
from discrete_meanflow.process import Masking, SequenceProcess, UniformDiffusion
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.times import OneTime


def mask_score(process: SequenceProcess, network: nn.Module) -> Kernel:
    assert isinstance(process, Masking)
    return MaskScoreKernel(DiagonalNetwork(network), process)


def uniform_score(process: SequenceProcess, network: nn.Module) -> Kernel:
    assert isinstance(process, UniformDiffusion)
    return UniformScoreKernel(DiagonalNetwork(network), process)


METHODS = {
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
}
