import torch
from torch import Tensor

from discrete_meanflow.kernel.endpoint import EndpointKernel
from discrete_meanflow.network import CausalLogitMask, CausalTransformer
from discrete_meanflow.simplex import categorical, delta
from discrete_meanflow.state import Discrete
from discrete_meanflow.types import Logits, Probs, Times, Tokens


class AutoregressiveKernel(EndpointKernel):
    """``q_d = p(x_d | x_1, ..., x_{d-1})``: the law of each position given those before it.

    The chain rule makes ``log_prob`` exact. Positions move one after the other, so the time of a
    position is 0 until it is drawn and 1 after: ``AutoregressiveSampler`` does that.

    Args:
        network: a causal network.
        states: number of symbols n.
        mask: the noise symbol, if there is one. It has probability 0.
    """

    def __init__(
        self, network: CausalTransformer | CausalLogitMask, states: int, mask: int | None = None
    ) -> None:
        super().__init__(network, Discrete(states), mask)
        self.length, self.step, self.cache = network.length, network.step, network.cache

    def log_q(self, x: Tokens, logits: Logits) -> Logits:
        if self.mask is not None:
            noise = torch.arange(self.states, device=logits.device) == self.mask
            logits = logits.masked_fill(noise, -torch.inf)
        return logits.log_softmax(-1)

    def push(self, x: Tokens, q: Probs, r: Times, t: Times) -> Probs:
        return torch.where((t > r)[..., None], q, delta(x, self.states, q.dtype))

    def transport(
        self, x: Tokens, logits: Logits, r: Times, t: Times, g: torch.Generator
    ) -> Tokens:
        drawn = categorical(self.log_q(x, logits.double()).exp(), g)
        return torch.where(t > r, drawn, x)

    def log_prob(self, x: Tokens) -> Tensor:
        """``log p(x)`` of sequences ``(*batch, D)``, exact: shape ``(*batch,)``."""
        time = torch.zeros(*x.shape[:-1], 1, dtype=self.dtype, device=x.device)
        log_q = self.log_q(x, self(x, time, time))
        return log_q.gather(-1, x[..., None])[..., 0].sum(-1)

    def extra_repr(self) -> str:
        return f"states={self.states}, mask={self.mask}"
