from typing import Self

import torch
from torch import Tensor, nn

from discrete_meanflow.types import Logits, Point, Times

NEVER = -1e4  # finite, so that 0 * NEVER = 0; its probability is 0 in float32


class LogitMask(nn.Module):
    """Removes symbols that a position cannot have, such as other columns' levels.

    Their logits are masked, and the network does not see their entries of a point, which are noise.

    Args:
        network: over n symbols.
        allowed: which symbols each position may have, bool ``(D, n)``.
        visible: which entries of a point the network sees; by default the allowed ones.
    """

    allowed: Tensor
    visible: Tensor

    def __init__(self, network: nn.Module, allowed: Tensor, visible: Tensor | None = None) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("allowed", allowed, persistent=False)
        self.register_buffer("visible", allowed if visible is None else visible, persistent=False)

    @classmethod
    def with_noise(cls, network: nn.Module, allowed: Tensor, symbols: int) -> Self:
        """The mask for a process whose noise adds symbols: seen, but never generated."""
        added = allowed.new_zeros(len(allowed), symbols)
        return cls(network, torch.cat([allowed, added], -1), torch.cat([allowed, ~added], -1))

    def forward(self, x: Point, r: Times, t: Times) -> Logits:
        return torch.where(self.allowed, self.network(x * self.visible, r, t), NEVER)
