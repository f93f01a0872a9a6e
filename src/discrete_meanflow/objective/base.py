from abc import ABC, abstractmethod

from torch import Tensor, nn

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.process import PathSample

DIAGONAL = 0.25  # share of pairs at t = r, which pin q there, of our estimators


class Objective(nn.Module, ABC):
    """A map ``(kernel, path) -> loss`` whose minimum is the reference kernel.

    It draws nothing: all randomness is in the path, so a step can be traced, stacked over
    seeds and replayed.
    """

    draws: int = 1  # draws of x_t per path that the objective wants
    soft: bool = False  # whether it is right for soft states
    diagonal: float = 0.0  # share of its time pairs that should be t = r, lest q be undetermined

    def at(self, progress: float) -> "Objective":
        """The objective after this share of the training; most are the same all along."""
        return self

    @abstractmethod
    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        """A scalar: the mean over the batch.

        teacher: where targets come from that the kernel itself makes: its running average, if
        the training keeps one. No gradient flows through it.
        """
