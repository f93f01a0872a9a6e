"""MDLM: Sahoo et al. 2024, arXiv:2406.07524.

Masking, and a denoiser q that puts no mass on the mask, carries unmasked symbols over and sees no
time (substitution parametrisation). Loss: ``E[ -log q(x1 | x_r) / (1 - r) ]`` over masked
positions, a bound of the likelihood. Sampler: ancestral, which evaluates the network only for
sequences that have changed.

It differs from the paper in the times of a batch, which are independent instead of spread evenly.
"""

from torch import nn

from discrete_meanflow.kernel import BridgeKernel, Kernel
from discrete_meanflow.method.base import MANY, Method
from discrete_meanflow.method.jump_process import below_one, mask_of, path_bound
from discrete_meanflow.network import TimelessNetwork
from discrete_meanflow.objective import RateKL
from discrete_meanflow.process import Masking, SequenceProcess
from discrete_meanflow.sampler import CachedSampler


def timeless_bridge(process: SequenceProcess, network: nn.Module) -> Kernel:
    """The reverse process of a denoiser that sees no time."""
    return BridgeKernel(TimelessNetwork(network), process, mask_of(process))


METHODS = {
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
}
