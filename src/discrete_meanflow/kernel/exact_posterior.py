from torch.nn.functional import pad

from discrete_meanflow.data import Law
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel.base import StateNetwork
from discrete_meanflow.process import SequenceProcess
from discrete_meanflow.types import Logits, State, Times


class ExactPosterior(StateNetwork):
    """``log p(x1_d | x_r)`` of a known law: the network that training approximates.

    Used as a kernel's network it makes every position exact; the remaining error of its samples
    comes from drawing positions independently.
    """

    def __init__(self, law: Law, process: SequenceProcess) -> None:
        super().__init__()
        if not isinstance(law, Law):
            raise InputError(f"exact posterior: needs a Law, got {type(law).__name__}")
        self.law, self.process = law, process

    def forward(self, x: State, r: Times, t: Times) -> Logits:
        """Logits over all n states, ``(*batch, D, n)``, in float64."""
        p = self.law.posterior(self.process.likelihood(x, r))
        return pad(p, (0, self.process.states - p.shape[-1])).log()
