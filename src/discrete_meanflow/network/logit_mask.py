import torch
from torch import Tensor, nn

from discrete_meanflow.types import Logits, Point, Times

NEVER = -1e4  # finite, so that 0 * NEVER = 0; its probability is 0 in float32


class LogitMask(nn.Module):
    """Removes symbols that a position cannot have, such as other columns' levels.

    Their logits are masked, and the network does not see their entries of a point, which are noise.
    """

    allowed: Tensor

    def __init__(self, network: nn.Module, allowed: Tensor) -> None:
        """allowed: which symbols each position may have, bool ``(D, V)``."""
        super().__init__()
        self.network = network
        self.register_buffer("allowed", allowed, persistent=False)

    def forward(self, x: Point, r: Times, t: Times) -> Logits:
        return torch.where(self.allowed, self.network(x * self.allowed, r, t), NEVER)
