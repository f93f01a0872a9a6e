import torch
from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.network.dit import TimeFeatures
from discrete_meanflow.simplex import as_point
from discrete_meanflow.types import Logits, Point, State, Times

TIME_WIDTH = 64


class FlatMLP(nn.Module):
    """A residual MLP over the whole sequence at once: cheap where sequences are short.

    The state of all positions, with their times, is one vector; each block is shifted and
    scaled by the times of the positions that are not yet at time 1.
    """

    def __init__(self, states: int, length: int, width: int = 512, blocks: int = 3) -> None:
        super().__init__()
        if states < 2 or length < 1 or width < 2 or width % 2 or blocks < 1:
            raise InputError(
                "FlatMLP: needs at least 2 states, 1 position, 1 block and an even width, got "
                f"{states}, {length}, {blocks} and {width}"
            )
        self.states, self.length = states, length
        self.time = TimeFeatures(states, TIME_WIDTH)
        self.first = nn.Linear(length * (states + 2), width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, length * states)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: State | Point, r: Times, t: Times) -> Logits:
        """States ``(*batch, D)`` or points ``(*batch, D, n)``, times ``(*batch, D or 1)`` -> logits
        ``(*batch, D, n)``."""
        points = as_point(x, self.states, t.dtype)
        each = [s.expand(points.shape[:-1])[..., None] for s in (r, t)]
        h = self.first(torch.cat([points, *each], -1).flatten(-2))
        times = self.time(r.amin(-1), t.amin(-1))
        for block in self.blocks:
            h = block(h, times)
        return self.last(self.norm(h)).unflatten(-1, (self.length, self.states))


class Block(nn.Module):
    """``h + W_2 gelu(W_1 (norm(h) scaled and shifted by the times))``."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulation = nn.Linear(TIME_WIDTH, 2 * width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, h: Tensor, times: Tensor) -> Tensor:
        scale, shift = self.modulation(times).chunk(2, -1)
        return h + self.feed_forward(self.norm(h) * (1 + scale) + shift)
