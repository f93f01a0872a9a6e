import torch
from torch import nn

from discrete_meanflow.types import Logits, Point, Times


class TimelessNetwork(nn.Module):
    """A network that does not see the times: ``(x, r, t) -> network(x, 1/2, 1/2)``.

    Under masking the posterior of x1 depends on the masked sequence only, not on its time, so
    MDLM (Sahoo et al. 2024, arXiv:2406.07524) needs no time input.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Point, r: Times, t: Times) -> Logits:
        constant = torch.full_like(r, 0.5)
        return self.network(x, constant, constant)
