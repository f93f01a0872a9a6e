from abc import abstractmethod

import torch
from torch import nn

from discrete_meanflow.kernel.base import Kernel
from discrete_meanflow.simplex import delta
from discrete_meanflow.state import StateSpace
from discrete_meanflow.types import Logits, Probs, State, Times


class EndpointKernel(Kernel):
    """A kernel built from a law q of the endpoint of each position: for sequences, of x1.

    Args:
        network: see :class:`Kernel`.
        space: the state space.
        mask: the noise symbol. A position that holds another symbol has arrived: q is delta_x
            there and the position stays (carry-over, as in MDLM).
    """

    def __init__(self, network: nn.Module, space: StateSpace, mask: int | None = None) -> None:
        super().__init__(network, space)
        self.mask = mask

    def log_q(self, x: State, logits: Logits) -> Logits:
        """``log q(. | x, r, t)``: shape ``(*batch, n)``."""
        log_q = logits.log_softmax(-1)
        if self.mask is None:
            return log_q
        arrived = delta(x, self.states, logits.dtype).log()
        return torch.where((x == self.mask)[..., None], log_q, arrived)

    @abstractmethod
    def push(self, x: State, q: Probs, r: Times, t: Times) -> Probs:
        """The law of X_t given ``X_r = x`` and the law q of its endpoint."""

    def law(self, x: State, logits: Logits, r: Times, t: Times) -> Probs:
        return self.push(x, self.log_q(x, logits).exp(), r, t)
