import torch
from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Times


class SinusoidalEmbedding(nn.Module):
    """``t -> (sin(s w_i t), cos(s w_i t))``, ``w_i = 10000^(-i/h)``, ``h = width/2``.

    The paper has scale s = 1, at which only the first few frequencies vary on [0, 1]. A larger
    scale gives sharper features of time.
    """

    frequencies: Tensor

    def __init__(self, width: int, scale: float = 1.0) -> None:
        super().__init__()
        if width < 2 or width % 2:
            raise InputError(f"time embedding: width must be even and positive, got {width}")
        self.width, self.scale = width, scale
        half = width // 2
        frequencies = scale * 10000.0 ** (-torch.arange(half) / half)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def forward(self, t: Times) -> Tensor:
        """``(*batch,) -> (*batch, width)``."""
        angle = t[..., None] * self.frequencies
        return torch.cat([angle.sin(), angle.cos()], -1)

    def extra_repr(self) -> str:
        return f"width={self.width}, scale={self.scale:g}"
