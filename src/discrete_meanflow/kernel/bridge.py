import torch
from torch import nn

from discrete_meanflow.kernel.endpoint import EndpointKernel
from discrete_meanflow.process import SequenceProcess
from discrete_meanflow.simplex import categorical
from discrete_meanflow.types import Logits, Probs, State, Times


class BridgeKernel(EndpointKernel):
    """The bridge of any sequence process with x1 drawn from q: ``sum_{x1} K(. | x, x1) q(x1)``.

    For masking, absorbing and uniform noise this is the boundary kernel with the linear
    schedule; structured noise has no such form, and needs this one. The boundary holds by
    construction, since the bridge holds it.
    """

    def __init__(
        self, network: nn.Module, process: SequenceProcess, mask: int | None = None
    ) -> None:
        super().__init__(network, mask)
        # Not a submodule: its buffers belong to the problem's process, which the trainer moves.
        self._process = (process,)

    @property
    def process(self) -> SequenceProcess:
        return self._process[0]

    def push(self, x: State, q: Probs, r: Times, t: Times) -> Probs:
        return self.process.bridge(x, q, r, t)

    def transport(self, x: State, logits: Logits, r: Times, t: Times, g: torch.Generator) -> State:
        law = self.law(x, logits.double(), r.double(), t.double())
        return categorical(law, g)

    def extra_repr(self) -> str:
        return f"process={type(self.process).__name__}, mask={self.mask}"
