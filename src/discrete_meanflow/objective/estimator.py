"""Estimators of ``E[u_t(., X_t) | X_r = x_r]``, the right-hand side of the identity."""

from abc import ABC, abstractmethod

from torch import nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective.base import DIAGONAL, Needs
from discrete_meanflow.objective.time_derivative import forward_mode
from discrete_meanflow.process import ChainProcess, PathSample, Process, SequenceProcess
from discrete_meanflow.simplex import delta
from discrete_meanflow.types import Probs


class Estimator(nn.Module, ABC):
    """A target g for ``d/dt K_theta(., x_r, r, t)``; no gradient flows through it."""

    needs = Needs()

    @abstractmethod
    def forward(self, kernel: Kernel, path: PathSample) -> Probs:
        """g: shape ``(*batch, n)``."""


class SampledRate(Estimator):
    """``g = 1/m sum_i u_t(., x_t^i)`` with ``x_t^i ~ K_{r,t}(., x_r)``; unbiased.

    m = 1 is the paper's single sample. The variance due to x_t falls as 1/m.
    """

    def __init__(self, process: Process, draws: int = 1) -> None:
        super().__init__()
        if draws < 1:
            raise InputError(f"sampled estimator: needs at least one draw, got {draws}")
        self.process, self.needs = process, Needs(draws)

    def forward(self, kernel: Kernel, path: PathSample) -> Probs:
        return self.process.rates_at(path).mean(-2)

    def extra_repr(self) -> str:
        return f"draws={self.needs.draws}"


class RaoBlackwell(Estimator):
    """``g = E[u_t(., x_t | x1) | x_r, x1] = d/dt K_{r,t}(. | x_r, x1)``: x_t integrated out.

    By the forward equation the average is the time derivative of the bridge. For masking,
    absorbing and uniform noise it is ``(delta_{x1} - delta_{x_r}) / (1 - r)``, bounded in t.
    """

    needs = Needs(draws=0, diagonal=DIAGONAL)

    def __init__(self, process: Process) -> None:
        super().__init__()
        if not isinstance(process, SequenceProcess):
            raise InputError(
                f"Rao-Blackwell needs clean data x1; {type(process).__name__} has none. Use "
                "ExactExpectation(process) on a finite chain, or SampledRate(process, draws)"
            )
        self.process = process

    def forward(self, kernel: Kernel, path: PathSample) -> Probs:
        q = delta(path.x1, self.process.states, path.t.dtype)
        return forward_mode(lambda t: self.process.bridge(path.x, q, path.r, t), path.t)


class ExactExpectation(Estimator):
    """``g = u_t K_{r,t}(., x_r)``: the exact expectation, with zero variance."""

    def __init__(self, process: ChainProcess) -> None:
        super().__init__()
        self.process = _with_matrix(process, "the exact expectation")

    def forward(self, kernel: Kernel, path: PathSample) -> Probs:
        return self.process.flow(path.law, path.t)


class ModelExpectation(Estimator):
    """``g = u_t K_theta(., x_r)`` with a stopped gradient: no draw of x_t, no exact kernel.

    The forward equation with the model on both sides. Its only fixed point is the exact kernel,
    because ``K_theta(., x, r, r) = delta_x`` holds by construction.
    """

    def __init__(self, process: ChainProcess) -> None:
        super().__init__()
        self.process = _with_matrix(process, "the model's expectation")

    def forward(self, kernel: Kernel, path: PathSample) -> Probs:
        return self.process.flow(kernel.probs(path.x, path.r, path.t), path.t).detach()


def _with_matrix(process: Process, what: str) -> ChainProcess:
    if not isinstance(process, ChainProcess):
        raise InputError(
            f"{what} needs a generator matrix; {type(process).__name__} has none: "
            "use SampledRate(process, draws)"
        )
    return process
