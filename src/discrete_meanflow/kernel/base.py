from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from discrete_meanflow.ctmc.generator import as_times
from discrete_meanflow.errors import InputError
from discrete_meanflow.process import SequenceProcess
from discrete_meanflow.state import Discrete, StateSpace
from discrete_meanflow.types import Logits, Matrix, Probs, State, Times, Tokens


class StateNetwork(nn.Module):
    """A network that takes tokens where states are discrete, instead of one-hot points."""


class Kernel(nn.Module, ABC):
    """``K_theta(., x, r, t)``: for each start state x at r, a law of the state at t.

    ``forward`` is the one pass through the network, ``law`` turns its logits into a law, and
    ``transport`` draws from that law. Guidance and logit processors act between them.

    Args:
        network: maps points ``(*batch, n)`` and times ``(*batch,)`` to logits ``(*batch, n)``;
            a :class:`StateNetwork` takes states instead of points.
        space: the state space.
    """

    mask: int | None = None  # the noise symbol, if positions leave it once and then stay

    def __init__(self, network: nn.Module, space: StateSpace) -> None:
        super().__init__()
        self.network, self.space = network, space

    @property
    def states(self) -> int:
        """Number of states n."""
        return self.space.size

    def forward(self, x: State, r: Times, t: Times) -> Logits:
        """One forward pass: logits of shape ``(*batch, n)``, in the precision of the times.

        The network may compute in lower precision; laws are always computed in this one.
        """
        states = isinstance(self.network, StateNetwork)
        seen = x if states else self.space.network_input(x, t.dtype)
        return self.network(seen, r, t).to(t.dtype)

    @abstractmethod
    def law(self, x: State, logits: Logits, r: Times, t: Times) -> Probs:
        """``K_theta(., x, r, t)`` from logits: shape ``(*batch, n)``."""

    @abstractmethod
    def transport(self, x: State, logits: Logits, r: Times, t: Times, g: torch.Generator) -> State:
        """Draw ``X_t ~ K_theta(., x, r, t)``: shape of x."""

    def decode(self, x: State, g: torch.Generator | None = None) -> Tokens:
        """The symbols of a state at time 1. A discrete state holds them already."""
        return x

    def rescaled(self, logits: Logits, original: Logits) -> Logits:
        """Logits after logit processors, in the scale they had before. A law has none."""
        return logits

    def for_step(self, r: float, t: float) -> "Kernel":
        """The kernel of the step from r to t."""
        return self

    def learning_rate_scale(self, name: str) -> float:
        """The learning rate of a parameter relative to that of the recipe."""
        return 1.0

    def times_between(self, start: float, k: int) -> list[float]:
        """The k + 1 times of k equally difficult steps from start to 1."""
        return [start + (1 - start) * i / k for i in range(k)] + [1.0]

    def grid(self, k: int) -> list[float]:
        """The times of samples in k steps, for :class:`KernelSampler`."""
        return self.times_between(0.0, k)

    def probs(self, x: State, r: Times, t: Times) -> Probs:
        """``K_theta(., x, r, t)``: shape ``(*batch, n)``. Differentiable, unchecked."""
        return self.law(x, self(x, r, t), r, t)

    def matrix(self, r: Tensor | float, t: Tensor | float) -> Matrix:
        """``K_theta[y, x]`` for all pairs of states: shape ``(*times, n, n)``, columns are laws."""
        if not isinstance(self.space, Discrete):
            raise InputError(f"{type(self).__name__} has continuous states and no matrix")
        r, t = as_times(r, t)
        x = torch.arange(self.states, device=self.device).expand(*r.shape, self.states)
        times = [s.to(self.device, self.dtype)[..., None].expand(x.shape) for s in (r, t)]
        return self.probs(x, *times).transpose(-1, -2)

    @property
    def device(self) -> torch.device:
        """The device of the parameters, or of the buffers of an exact kernel."""
        return self._first_tensor.device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the parameters, or of the buffers of an exact kernel."""
        return self._first_tensor.dtype

    @property
    def _first_tensor(self) -> Tensor:
        tensors = (*self.parameters(), *self.buffers())
        return next((t for t in tensors if t.is_floating_point()), torch.empty(0).double())


class RateKernel(Kernel):
    """A kernel of a sequence process that also has rates: the limit of its law as t -> r."""

    earliest = 0.0  # the time at which its process starts, from the source

    @property
    @abstractmethod
    def process(self) -> SequenceProcess: ...

    @abstractmethod
    def rate(self, x: Tokens, logits: Logits, t: Times) -> Probs:
        """``u_theta(., x)`` at time t from the logits at (t, t); it sums to 0: ``(*batch, n)``."""
