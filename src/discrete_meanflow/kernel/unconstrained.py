import torch
from torch import nn

from discrete_meanflow.kernel.base import Kernel
from discrete_meanflow.simplex import categorical
from discrete_meanflow.state import Discrete
from discrete_meanflow.types import Logits, Probs, Times, Tokens


class UnconstrainedKernel(Kernel):
    """The ablation ``K_theta = softmax(logits)``: a penalty must teach the boundary."""

    def __init__(self, network: nn.Module, states: int) -> None:
        super().__init__(network, Discrete(states))

    def law(self, x: Tokens, logits: Logits, r: Times, t: Times) -> Probs:
        return logits.softmax(-1)

    def transport(
        self, x: Tokens, logits: Logits, r: Times, t: Times, g: torch.Generator
    ) -> Tokens:
        return categorical(logits.double().softmax(-1), g)
