import torch
from torch import nn

from discrete_meanflow.kernel.endpoint import EndpointKernel
from discrete_meanflow.schedule import AlphaSchedule
from discrete_meanflow.simplex import categorical, interpolate
from discrete_meanflow.types import Logits, Probs, State, Times


class BoundaryKernel(EndpointKernel):
    """Boundary by construction: ``K_theta = (1 - alpha) delta_x + alpha q_theta``.

    A law for any logits, and ``K_theta(., x, r, r) = delta_x`` exactly, because
    ``alpha(r, r) = 0``.
    """

    def __init__(
        self, network: nn.Module, schedule: AlphaSchedule, mask: int | None = None
    ) -> None:
        super().__init__(network, mask)
        self.schedule = schedule

    def push(self, x: State, q: Probs, r: Times, t: Times) -> Probs:
        return interpolate(x, q, self.schedule(r, t))

    def transport(self, x: State, logits: Logits, r: Times, t: Times, g: torch.Generator) -> State:
        """Bernoulli(alpha) first, then categorical(q), both in float64.

        One race over the mixture would lose the tail of q when alpha is small.
        """
        alpha = self.schedule(r.double(), t.double()).expand(x.shape)
        level = torch.rand(x.shape, dtype=torch.float64, device=x.device, generator=g)
        destination = categorical(self.log_q(x, logits.double()).exp(), g)
        return torch.where(level < alpha, destination, x)

    def extra_repr(self) -> str:
        return f"schedule={self.schedule}, mask={self.mask}"
