from torch import nn

from discrete_meanflow.types import Logits, Point, Times


class DiagonalNetwork(nn.Module):
    """A two-time network that sees r instead of t: ``(x, r, t) -> network(x, r, r)``.

    The denoiser of posterior regression, with exactly the parameters of the kernel's network.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Point, r: Times, t: Times) -> Logits:
        return self.network(x, r, r)
