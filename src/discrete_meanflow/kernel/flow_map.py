import torch
from torch import nn

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel.endpoint import EndpointKernel
from discrete_meanflow.schedule import AlphaSchedule, Linear
from discrete_meanflow.simplex import categorical, interpolate
from discrete_meanflow.types import Logits, Point, Probs, State, Times


class FlowMapKernel(EndpointKernel):
    """The boundary kernel on soft states: ``X_{r,t}(x) = (1 - alpha) x + alpha q_theta(x, r, t)``.

    It carries a point to a point, and draws nothing until the end, where the state is q itself:
    a law per position, all of them functions of the same noise.
    """

    def __init__(
        self, network: nn.Module, states: int, schedule: AlphaSchedule | None = None
    ) -> None:
        super().__init__(network)
        self.states, self.schedule = states, schedule or Linear()

    def push(self, x: Point, q: Probs, r: Times, t: Times) -> Point:
        return interpolate(x, q, self.schedule(r, t))

    def transport(self, x: Point, logits: Logits, r: Times, t: Times, g: torch.Generator) -> Point:
        return self.law(x, logits, r, t)

    def decode(self, x: Point, g: torch.Generator | None = None) -> State:
        """The likeliest symbol of each position, or with g one drawn from its law.

        The exact flow ends in symbols. What a trained one leaves of a law there is its error, and
        drawing from it position by position would tear apart what belongs together.
        """
        return x.argmax(-1) if g is None else categorical(x.clamp(min=0), g)

    def even_grid(self, k: int) -> list[float]:
        even = torch.arange(k, dtype=torch.float64) / k
        return DecodingClock(self.states).inverse(even).tolist()

    def check_start(self, x: Point) -> None:
        if not x.is_floating_point() or x.shape[-1] != self.states:
            raise InputError(
                f"sampler: this kernel has soft states over {self.states} symbols; start from "
                "points, process.source(shape, g)"
            )
        if not bool(x.isfinite().all()):
            raise InputError("sampler: the start has points that are not finite")

    def extra_repr(self) -> str:
        return f"states={self.states}, schedule={self.schedule}"
