import torch
from torch import nn

from discrete_meanflow.kernel.endpoint import EndpointKernel
from discrete_meanflow.process import SequenceProcess
from discrete_meanflow.simplex import categorical
from discrete_meanflow.types import Logits, Probs, Times, Tokens


class BridgeKernel(EndpointKernel):
    """The bridge of a sequence process with x1 drawn from q: ``sum_{x1} K(. | x, x1) q(x1)``.

    For masking, absorbing and uniform noise this equals the boundary kernel with the linear
    schedule; structured noise has no such form. The boundary holds by construction, because it
    holds for the bridge.
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

    def push(self, x: Tokens, q: Probs, r: Times, t: Times) -> Probs:
        return self.process.bridge(x, q, r, t)

    def transport(
        self, x: Tokens, logits: Logits, r: Times, t: Times, g: torch.Generator
    ) -> Tokens:
        law = self.law(x, logits.double(), r.double(), t.double())
        return categorical(law, g)

    def extra_repr(self) -> str:
        return f"process={type(self.process).__name__}, mask={self.mask}"
