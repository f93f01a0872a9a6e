import itertools

import torch
from torch import nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.network.time_embedding import SinusoidalEmbedding
from discrete_meanflow.simplex import delta
from discrete_meanflow.types import Logits, State, Times


class MLP(nn.Module):
    """The paper's network for finite chains: one-hot state, embedded r and t, GELU layers.

    ``layers`` counts linear maps: 4 layers of width 128 are three hidden layers and the
    output. The input has ``n + 2 * time_width`` features, the output n logits.
    """

    def __init__(
        self,
        states: int,
        width: int = 128,
        layers: int = 4,
        time_width: int = 32,
        time_scale: float = 1.0,
    ) -> None:
        super().__init__()
        if states < 2:
            raise InputError(f"MLP: needs at least 2 states, got {states}")
        if layers < 1 or width < 1:
            raise InputError(f"MLP: needs at least one layer and unit, got {layers} x {width}")
        self.states = states
        self.embed = SinusoidalEmbedding(time_width, time_scale)
        sizes = [states + 2 * time_width] + [width] * (layers - 1)
        stack: list[nn.Module] = []
        for size_in, size_out in itertools.pairwise(sizes):
            stack += [nn.Linear(size_in, size_out), nn.GELU()]
        self.layers = nn.Sequential(*stack, nn.Linear(sizes[-1], states))

    def forward(self, x: State, r: Times, t: Times) -> Logits:
        """``(*batch,)`` states, times that broadcast against them -> ``(*batch, n)``."""
        times = [self.embed(s.expand(x.shape)) for s in (r, t)]
        features = [delta(x, self.states, t.dtype), *times]
        return self.layers(torch.cat(features, -1))
