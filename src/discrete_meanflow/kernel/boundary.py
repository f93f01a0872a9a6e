import torch
from torch import nn

from discrete_meanflow.kernel.endpoint import EndpointKernel
from discrete_meanflow.schedule import AlphaSchedule
from discrete_meanflow.simplex import categorical, interpolate
from discrete_meanflow.state import Discrete
from discrete_meanflow.types import Logits, Probs, Times, Tokens


class BoundaryKernel(EndpointKernel):
    """Boundary by construction: ``K_theta = (1 - alpha) delta_x + alpha q_theta``.

    A law for any logits, and ``K_theta(., x, r, r) = delta_x`` exactly, because
    ``alpha(r, r) = 0``.
    """

    def __init__(
        self, network: nn.Module, states: int, schedule: AlphaSchedule, mask: int | None = None
    ) -> None:
        super().__init__(network, Discrete(states), mask)
        self.schedule = schedule

    def push(self, x: Tokens, q: Probs, r: Times, t: Times) -> Probs:
        return interpolate(self.space.point(x, q.dtype), q, self.schedule(r, t))

    def transport(
        self, x: Tokens, logits: Logits, r: Times, t: Times, g: torch.Generator
    ) -> Tokens:
        """Draw Bernoulli(alpha) first, then categorical(q), both in float64.

        A single Gumbel race over the mixture would truncate the tail of q for small alpha.
        """
        alpha = self.schedule(r.double(), t.double()).expand(x.shape)
        level = torch.rand(x.shape, dtype=torch.float64, device=x.device, generator=g)
        endpoint = categorical(self.log_q(x, logits.double()).exp(), g)
        return torch.where(level < alpha, endpoint, x)

    def extra_repr(self) -> str:
        return f"states={self.states}, schedule={self.schedule}, mask={self.mask}"
