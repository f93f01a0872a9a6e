import itertools

import torch
from torch import nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.network.points import check_points
from discrete_meanflow.network.time_embedding import SinusoidalEmbedding
from discrete_meanflow.types import Logits, Point, Times


class MLP(nn.Module):
    """The paper's network for finite chains: one-hot state, embedded r and t, GELU layers.

    ``layers`` counts linear maps: 4 layers of width 128 are three hidden layers and the
    output. The input has ``n + 2 * time_width`` features, the output n logits.
    """

    def __init__(
        self, states: int, width: int = 128, layers: int = 4, time_width: int = 32
    ) -> None:
        super().__init__()
        if states < 2:
            raise InputError(f"MLP: needs at least 2 states, got {states}")
        if layers < 1 or width < 1:
            raise InputError(f"MLP: needs at least one layer and unit, got {layers} x {width}")
        self.states = states
        self.embed = SinusoidalEmbedding(time_width)
        sizes = [states + 2 * time_width] + [width] * (layers - 1)
        stack: list[nn.Module] = []
        for size_in, size_out in itertools.pairwise(sizes):
            stack += [nn.Linear(size_in, size_out), nn.GELU()]
        self.layers = nn.Sequential(*stack, nn.Linear(sizes[-1], states))

    def forward(self, x: Point, r: Times, t: Times) -> Logits:
        """Points ``(*batch, n)`` and times that broadcast to ``(*batch,)``, to ``(*batch, n)``."""
        check_points("MLP", x, self.states)
        times = [self.embed(s.expand(x.shape[:-1])) for s in (r, t)]
        return self.layers(torch.cat([x, *times], -1))
