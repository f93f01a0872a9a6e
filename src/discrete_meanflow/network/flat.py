import torch
from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.network.dit import TimeFeatures
from discrete_meanflow.network.points import check_points
from discrete_meanflow.types import Logits, Point, Times

TIME_WIDTH = 64


class FlatMLP(nn.Module):
    """A residual MLP over the flattened sequence: cheap for short sequences.

    The input is one vector of all positions with their times. Observed positions, which are at
    r = 1, enter a second time with weights of their own, together with their mask: among noise of
    norm sqrt(n) a one-hot vector would hardly be noticed. Each block is scaled and shifted by the
    times of the generated positions.
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
        self.first = nn.Linear(length * (2 * states + 3), width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, length * states)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Point, r: Times, t: Times) -> Logits:
        """Points ``(*batch, D, n)`` and times ``(*batch, D or 1)`` to logits ``(*batch, D, n)``."""
        check_points("FlatMLP", x, self.states, self.length)
        times = [s.expand(x.shape[:-1])[..., None] for s in (r, t)]
        observed = (times[0] == 1).to(x.dtype)
        h = self.first(torch.cat([x, *times, observed * x, observed], -1).flatten(-2))
        features = self.time(r.amin(-1), t.amin(-1))
        for block in self.blocks:
            h = block(h, features)
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
