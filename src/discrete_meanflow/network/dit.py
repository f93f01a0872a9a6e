import torch
from torch import Tensor, nn

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.errors import InputError
from discrete_meanflow.network.time_embedding import SinusoidalEmbedding
from discrete_meanflow.network.transformer import Attention, check_sizes
from discrete_meanflow.simplex import as_point
from discrete_meanflow.types import Logits, Point, State, Times

HEAD, NARROW, WIDE = 32, 128, 512  # width of a head; half of it below one width, twice from another
DEEPEST = 12  # layers
TIME_SCALE = 16.0  # radians that the fastest feature of time turns on [0, 1]


class TimeFeatures(nn.Module):
    """``(r, t) -> (*batch, width)``, read on the clock tau of an alphabet of V symbols."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.clock = DecodingClock(vocabulary)
        self.embed = SinusoidalEmbedding(width, TIME_SCALE)
        self.mix = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, r: Times, t: Times) -> Tensor:
        return self.mix(torch.cat([self.embed(self.clock(s)) for s in (r, t)], -1))


class DiT(nn.Module):
    """A Transformer whose layers are shifted, scaled and gated by the times (r, t).

    One map gives these six vectors to all layers, each of which adds its own; the gates start
    at zero, so that a fresh network is the identity and its logits are flat. Positions are
    learned; with ``rotary``, attention sees distances between them, too.

    A sequence is at one pair of times, but for the positions that are known, which are at (1, 1):
    the vectors are made for these two, not for each position.
    """

    def __init__(
        self,
        states: int,
        length: int,
        width: int = 128,
        layers: int = 4,
        heads: int = 4,
        rotary: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(states, length)
        if layers < 1 or heads < 1 or width < 1 or width % (2 * heads):
            raise InputError(
                f"Transformer: needs layers >= 1 and heads of even width, got {layers} layers of "
                f"width {width} with {heads} heads"
            )
        self.states, self.length = states, length
        self.width, self.heads = width, heads
        self.symbol = nn.Linear(states, width)
        self.position = nn.Parameter(torch.randn(length, width) / width**0.5)
        self.time = TimeFeatures(states, width)
        self.modulation = nn.Linear(width, 6 * width)
        rotation = Rotation(length, width // heads) if rotary else None
        self.layers = nn.ModuleList(DiTBlock(width, heads, rotation) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, states)
        for flat in (self.modulation, self.head):
            nn.init.zeros_(flat.weight)
            nn.init.zeros_(flat.bias)

    @classmethod
    def sized(cls, states: int, length: int, parameters: float, rotary: bool = False) -> "DiT":
        """The largest with at most so many parameters, of width 16 or more: one dial."""
        width = HEAD // 2
        while _count(states, length, width + _head(width)) <= parameters:
            width += _head(width)
        return cls(states, length, width, _layers(width), width // _head(width), rotary)

    def forward(self, x: State | Point, r: Times, t: Times) -> Logits:
        """States ``(*batch, D)`` or points ``(*batch, D, n)``, times ``(*batch, D or 1)`` -> logits
        ``(*batch, D, n)``. Of D times, those that are not 1 are alike."""
        h = self.symbol(as_point(x, self.states, t.dtype))
        h = h + self.position.to(h.dtype)
        r, t, known = apart(r, t)
        times = self.modulation(self.time(r, t)).unflatten(-1, (6, -1))  # (*batch, 1 or 2, 6, w)
        for layer in self.layers:
            h = layer(h, times, known)
        return self.head(self.norm(h))


def apart(r: Times, t: Times) -> tuple[Times, Times, Tensor | None]:
    """The times of what is not known and of what is, ``(*batch, 2)``, and which positions those
    are, ``(*batch, D, 1)``. None is, where times are one for all: ``(*batch, 1)``."""
    r, t = torch.broadcast_tensors(*torch.atleast_1d(r, t))
    if r.shape[-1] == 1:
        return r, t, None
    first = r.argmin(-1, keepdim=True)  # its times are those of all that is not known
    r_both, t_both = (
        torch.cat([s.gather(-1, first), torch.ones_like(s[..., :1])], -1) for s in (r, t)
    )
    return r_both, t_both, (r == 1)[..., None]


def _head(width: int) -> int:
    return HEAD // 2 if width < NARROW else HEAD if width < WIDE else 2 * HEAD


def _layers(width: int) -> int:
    """As many as heads of 32, up to 12: in depth one pass settles what steps settle in turn."""
    return max(1, min(width // HEAD, DEEPEST))


def _count(states: int, length: int, width: int) -> int:
    """Parameters of the sized network of this width."""
    layer = 12 * width**2 + 15 * width
    ends = (2 * states + length + 3) * width + states
    return _layers(width) * layer + ends + 9 * width**2 + 8 * width


class DiTBlock(nn.Module):
    """``h + gate attention(norm(h))``, then ``h + gate feed_forward(norm(h))``.

    In mixed precision h and its gradient are in the lower one between layers, since most of a
    step's time goes into moving them.
    """

    def __init__(self, width: int, heads: int, rotation: "Rotation | None") -> None:
        super().__init__()
        self.own = nn.Parameter(torch.zeros(6, width))
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.attention = Attention(width, heads, rotation)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, h: Tensor, times: Tensor, known: Tensor | None) -> Tensor:
        vectors = (times + self.own).unbind(-2)
        if known is not None:  # one by one: six at once would be stored for every position
            vectors = tuple(torch.where(known, v[..., 1:, :], v[..., :1, :]) for v in vectors)
        shift, scale, gate, shift_2, scale_2, gate_2 = vectors
        mixed = self.attention(self.norm(h) * (1 + scale) + shift)
        h = (h + gate * mixed).to(h.dtype)
        fed = self.feed_forward(self.norm(h) * (1 + scale_2) + shift_2)
        return (h + gate_2 * fed).to(h.dtype)


class Rotation(nn.Module):
    """Rotary positions: each pair of features turns by an angle in proportion to its position."""

    cosine: Tensor
    sine: Tensor

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        angle = torch.arange(length)[:, None] * 1000.0 ** (-torch.arange(0, width, 2) / width)
        self.register_buffer("cosine", angle.cos(), persistent=False)
        self.register_buffer("sine", angle.sin(), persistent=False)

    def forward(self, q: Tensor) -> Tensor:
        """``(*batch, heads, D, w) -> (*batch, heads, D, w)``."""
        a, b = q.chunk(2, -1)
        return torch.cat([a * self.cosine - b * self.sine, a * self.sine + b * self.cosine], -1)
