import torch

from discrete_meanflow.kernel.base import Kernel
from discrete_meanflow.simplex import categorical
from discrete_meanflow.types import Logits, Probs, State, Times


class UnconstrainedKernel(Kernel):
    """The ablation: ``K_theta = softmax(logits)``. The boundary must be learned by a penalty."""

    def law(self, x: State, logits: Logits, r: Times, t: Times) -> Probs:
        return logits.softmax(-1)

    def transport(self, x: State, logits: Logits, r: Times, t: Times, g: torch.Generator) -> State:
        return categorical(logits.double().softmax(-1), g)
