from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from discrete_meanflow.ctmc.transition import as_times
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Logits, Matrix, Probs, State, Times

if TYPE_CHECKING:
    from discrete_meanflow.process import SequenceProcess


class Kernel(nn.Module, ABC):
    """``K_theta(., x, r, t)``: for each start state x at r, a law of the state at t.

    ``forward`` is the one pass through the network; ``law`` says what its logits mean and
    ``transport`` draws from that law. They are apart so that whatever acts on logits
    (guidance, temperature) has its place between them.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    @staticmethod
    def from_denoiser(
        denoiser: Callable[[State, Times], Tensor],
        process: "SequenceProcess",
        home: Tensor | None = None,
    ) -> "Kernel":
        """``(state, time) -> logits`` of x1, trained elsewhere, as a kernel on the process."""
        from discrete_meanflow.kernel.denoiser import from_denoiser  # which knows all kernels

        return from_denoiser(denoiser, process, home)

    def forward(self, x: State, r: Times, t: Times) -> Logits:
        """One forward pass: shape ``(*batch, n)``, in the precision of the times.

        A network may compute in a lower one; what logits are turned into may not.
        """
        return self.network(x, r, t).to(t.dtype)

    @property
    def home(self) -> Tensor:
        """An empty tensor with the device and the dtype that the kernel computes in.

        They are those of its parameters; an exact kernel, which has none, has buffers in float64.
        """
        held = (tensor for tensor in (*self.parameters(), *self.buffers()))
        first = next((t for t in held if t.is_floating_point()), torch.empty(0).double())
        return first.new_empty(0)

    @abstractmethod
    def law(self, x: State, logits: Logits, r: Times, t: Times) -> Probs:
        """``K_theta(., x, r, t)`` from logits already computed: shape ``(*batch, n)``."""

    @abstractmethod
    def transport(self, x: State, logits: Logits, r: Times, t: Times, g: torch.Generator) -> State:
        """Draw ``X_t ~ K_theta(., x, r, t)``: shape ``(*batch,)``."""

    def decode(self, x: State, g: torch.Generator | None = None) -> State:
        """Symbols from a state at time 1, drawn with g; a hard state is one already."""
        return x

    def even_grid(self, k: int) -> list[float]:
        """Where k steps from 0 to 1 begin, if none is to be harder than the others."""
        return [i / k for i in range(k)]

    def check_start(self, x: State) -> None:
        """Refuse what cannot be a state of this kernel."""
        if x.is_floating_point() or (x.numel() and int(x.min()) < 0):
            raise InputError("sampler: start states must be whole numbers from 0")

    def probs(self, x: State, r: Times, t: Times) -> Probs:
        """``K_theta(., x, r, t)``: shape ``(*batch, n)``. Differentiable; checks nothing."""
        return self.law(x, self(x, r, t), r, t)

    def matrix(self, states: int, r: Tensor | float, t: Tensor | float) -> Matrix:
        """``K_theta[y, x]`` for all pairs of states: shape ``(*times, n, n)``, columns laws."""
        r, t = as_times(r, t)
        x = torch.arange(states, device=self.home.device).expand(*r.shape, states)
        spread = [s.to(self.home)[..., None].expand(x.shape) for s in (r, t)]
        return self.probs(x, *spread).transpose(-1, -2)
