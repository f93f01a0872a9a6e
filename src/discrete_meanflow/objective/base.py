from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor, nn

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.path import Paths
from discrete_meanflow.process import PathSample

DIAGONAL = 0.25  # fraction of pairs at t = r with our estimators, which pins q there


@dataclass(frozen=True)
class Needs:
    """What an objective needs from its training batches."""

    draws: int = 1  # samples of x_t per path
    diagonal: float = 0.0  # fraction of time pairs at t = r, without which q is undetermined
    continuous: bool = False  # whether it is valid for continuous states
    data_ends: bool = False  # whether x1 must be data, given x_r
    flow_map_ends: bool = False  # whether x1 must follow the flow map's own law
    parts: tuple[type[Paths], ...] = ()  # equal parts of a batch that it treats differently

    @classmethod
    def union(cls, needs: Iterable["Needs"]) -> "Needs":
        """The needs of several objectives on one batch."""
        needs = list(needs)
        return cls(
            max(n.draws for n in needs),
            max(n.diagonal for n in needs),
            all(n.continuous for n in needs),
            any(n.data_ends for n in needs),
            any(n.flow_map_ends for n in needs),
            next((n.parts for n in needs if n.parts), ()),
        )


class Objective(nn.Module, ABC):
    """A map ``(kernel, path) -> loss`` whose minimum is the reference kernel.

    It draws nothing: all randomness is in the path, so a step can be traced, stacked over seeds
    and replayed.
    """

    needs = Needs()

    def at(self, progress: float) -> "Objective":
        """The objective at this fraction of the training; constant except for ``Phases``."""
        return self

    @abstractmethod
    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        """A scalar, the mean over the batch.

        Args:
            kernel: the kernel in training.
            path: a training batch.
            teacher: the EMA of the kernel, if training keeps one, for targets that the kernel
                makes itself. No gradient flows through it.
        """
