"""Methods on discrete states: jump processes and their kernels."""

from discrete_meanflow.method.base import Method
from discrete_meanflow.objective import KernelCE
from discrete_meanflow.process import Masking
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.times import UniformGap

GAP = 0.02  # smallest t - r, as in the paper

METHODS = {
    "kernel-ce": Method(
        "Discrete MeanFlow as in its paper (arXiv:2605.12805): masking and kernel-CE",
        Masking,
        lambda process: KernelCE(),
        lambda vocabulary: UniformGap(GAP),
        KernelSampler.steps,
        steps=1,
    ),
}
