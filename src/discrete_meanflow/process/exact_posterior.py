from torch import nn
from torch.nn.functional import pad

from discrete_meanflow.data import Law
from discrete_meanflow.errors import InputError
from discrete_meanflow.process.sequence import SequenceProcess
from discrete_meanflow.types import Logits, State, Times


class ExactPosterior(nn.Module):
    """``log p(x1_d | x_r)`` of a law that is known: the network that training aims at.

    In the place of a network it makes a kernel exact, position by position; what is then still
    wrong with its samples is due to drawing positions independently.
    """

    def __init__(self, process: SequenceProcess) -> None:
        super().__init__()
        if not isinstance(process.data, Law):
            raise InputError(
                f"posterior: needs data whose law is known, {type(process.data).__name__} is not"
            )
        self.law, self.process = process.data, process

    def forward(self, x: State, r: Times, t: Times) -> Logits:
        """Logits over all n states, in float64: ``(*batch, D, n)``."""
        p = self.law.posterior(self.process.likelihood(x, r))
        return pad(p, (0, self.process.states - p.shape[-1])).log()
