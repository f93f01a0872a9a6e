import torch
from torch import Tensor, nn

from discrete_meanflow.types import Logits, State, Times

NEVER = -1e4  # a logit whose probability is 0 in float32, and 0 times which is 0


class LogitMask(nn.Module):
    """A network whose positions have alphabets of their own, such as the columns of a table."""

    allowed: Tensor

    def __init__(self, network: nn.Module, allowed: Tensor) -> None:
        """allowed: which symbols each position may have, bool ``(D, V)``."""
        super().__init__()
        self.network = network
        self.register_buffer("allowed", allowed, persistent=False)

    def forward(self, x: State, r: Times, t: Times) -> Logits:
        return torch.where(self.allowed, self.network(x, r, t), NEVER)
