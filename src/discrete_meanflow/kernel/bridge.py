import torch
from torch import nn

from discrete_meanflow.kernel.base import RateKernel
from discrete_meanflow.kernel.endpoint import EndpointKernel
from discrete_meanflow.process import SequenceProcess
from discrete_meanflow.simplex import categorical
from discrete_meanflow.types import Logits, Probs, Times, Tokens


class BridgeKernel(EndpointKernel, RateKernel):
    """The bridge of a sequence process with x1 drawn from q: ``sum_{x1} K(. | x, x1) q(x1)``.

    For masking, absorbing and uniform mixtures this equals the boundary kernel with the linear
    schedule; Markov noise on an alphabet has no such form. The boundary holds by construction,
    because it holds for the bridge. Symbols that are not data have probability 0 under q.

    On a grid of times this is the reverse chain of D3PM (Austin et al. 2021, arXiv:2107.03006) in
    its x0-parametrisation, and for masking the substitution parametrisation of MDLM (Sahoo et al.
    2024, arXiv:2406.07524). D3PM weights the bridges by ``p_r(x | x1)``, so that its q is not the
    posterior of x1; here it is. For masking the two agree.
    """

    def __init__(
        self, network: nn.Module, process: SequenceProcess, mask: int | None = None
    ) -> None:
        super().__init__(network, process.space, mask)
        # Not a submodule: the process belongs to the problem's paths, which the trainer moves.
        self._process = (process,)

    @property
    def process(self) -> SequenceProcess:
        return self._process[0]

    def log_q(self, x: Tokens, logits: Logits) -> Logits:
        no_data = torch.arange(self.states, device=logits.device) >= self.process.vocabulary
        return super().log_q(x, logits.masked_fill(no_data, -torch.inf))

    def rate(self, x: Tokens, logits: Logits, t: Times) -> Probs:
        return self.process.marginal_rate(x, self.log_q(x, logits).exp(), t)

    def push(self, x: Tokens, q: Probs, r: Times, t: Times) -> Probs:
        return self.process.bridge(x, q, r, t)

    def transport(
        self, x: Tokens, logits: Logits, r: Times, t: Times, g: torch.Generator
    ) -> Tokens:
        law = self.law(x, logits.double(), r.double(), t.double())
        return categorical(law, g)

    def extra_repr(self) -> str:
        return f"process={type(self.process).__name__}, mask={self.mask}"
