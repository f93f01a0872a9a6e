"""Discrete MeanFlow as in its paper: arXiv:2605.12805.

Masking, and the kernel ``K = (1 - alpha) delta_x + alpha q(. | x, r, t)`` with
``alpha = (t - r)/(1 - r)``, trained by kernel cross-entropy ``-log q(x1 | x_r, r, t)``. Sampler:
one kernel step or several, each factorised over positions.
"""

from torch import nn

from discrete_meanflow.kernel import BoundaryKernel, Kernel
from discrete_meanflow.method.base import Method
from discrete_meanflow.objective import KernelCE
from discrete_meanflow.process import Masking, SequenceProcess
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.schedule import Linear
from discrete_meanflow.times import UniformGap

GAP = 0.02  # smallest t - r, as in the paper


def boundary(process: SequenceProcess, network: nn.Module) -> Kernel:
    """The paper's kernel; at t = 1 every mask is replaced."""
    assert isinstance(process, Masking)
    return BoundaryKernel(network, process.states, Linear(), process.token)


METHODS = {
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
