import torch
from torch import nn

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.kernel.endpoint import EndpointKernel
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.schedule import AlphaSchedule, Linear
from discrete_meanflow.simplex import categorical, interpolate
from discrete_meanflow.state import Continuous
from discrete_meanflow.types import Logits, Point, Probs, Times, Tokens


class FlowMapKernel(EndpointKernel):
    """The boundary kernel on continuous states: ``X_{r,t}(x) = (1 - alpha) x + alpha q_theta``.

    A flow map (Boffi et al. 2024, arXiv:2406.07507): it maps points to points and draws nothing.
    At t = 1 the state is q, a law per position, and all positions depend on the same noise.

    Args:
        network: maps points and two times to logits.
        states: number of symbols V.
        schedule: alpha.
        ordered: as in the process; see :class:`Continuous`.
    """

    space: Continuous

    def __init__(
        self,
        network: nn.Module,
        states: int,
        schedule: AlphaSchedule | None = None,
        ordered: tuple[int, ...] = (),
    ) -> None:
        super().__init__(network, Continuous(states, ordered))
        self.schedule = schedule or Linear()

    def with_network(self, network: nn.Module) -> "FlowMapKernel":
        """A flow map of the same form with another network."""
        return FlowMapKernel(network, self.states, self.schedule, self.space.ordered)

    def push(self, x: Point, q: Probs, r: Times, t: Times) -> Point:
        return interpolate(x, q, self.schedule(r, t))

    def transport(self, x: Point, logits: Logits, r: Times, t: Times, g: torch.Generator) -> Point:
        return self.law(x, logits, r, t)

    def decode(self, x: Point, g: torch.Generator | None = None) -> Tokens:
        """The most likely symbol of each position, or with g a draw from its law.

        The exact flow ends in symbols. If a trained one ends in a law, that is its error, and
        independent draws per position would break the dependence between positions.
        """
        return x.argmax(-1) if g is None else categorical(x.clamp(min=0), g)

    def renoise(self, symbols: Tokens, r: Times, g: torch.Generator) -> Point:
        """``(1 - r) z + r e_y`` with fresh noise z."""
        process = OneHotFlow(self.states, ordered=self.space.ordered)
        return process.corrupt(symbols, r, g).to(r.dtype)

    def times_between(self, start: float, k: int) -> list[float]:
        clock, times = DecodingClock(self.states), torch.tensor([start, 1.0], dtype=torch.float64)
        first, last = clock(times).tolist()
        even = torch.linspace(first, last, k + 1, dtype=torch.float64)
        return [*clock.inverse(even[:-1]).tolist(), 1.0]

    def extra_repr(self) -> str:
        return f"states={self.states}, schedule={self.schedule}"
