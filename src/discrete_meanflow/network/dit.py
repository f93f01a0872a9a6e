import torch
from torch import Tensor, nn

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.errors import InputError
from discrete_meanflow.network.points import check_points
from discrete_meanflow.network.time_embedding import SinusoidalEmbedding
from discrete_meanflow.network.transformer import Attention, check_sizes
from discrete_meanflow.types import Logits, Point, Times

HEAD = 32  # width of a head: half of it below width NARROW, twice from width WIDE on
NARROW, WIDE = 128, 512
DEEPEST = 12  # layers
TIME_SCALE = 16.0  # radians the fastest time feature turns on [0, 1]


class TimeFeatures(nn.Module):
    """``(r, t) -> (*batch, width)``, embedded on the decoding clock of V symbols."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.clock = DecodingClock(vocabulary)
        self.embed = SinusoidalEmbedding(width, TIME_SCALE)
        self.mix = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, r: Times, t: Times) -> Tensor:
        return self.mix(torch.cat([self.embed(self.clock(s)) for s in (r, t)], -1))


class DiT(nn.Module):
    """A diffusion Transformer: layers modulated by the times (r, t) with adaLN-zero.

    After Peebles & Xie 2022 (arXiv:2212.09748), with one modulation shared by all layers, to which
    each layer adds its own (adaLN-single, PixArt-alpha, arXiv:2310.00426). Gates and head start at
    zero, so a new network is the identity with flat logits. Positions are learned.

    The positions of a sequence share one pair of times, except observed ones, which are at (1, 1).
    Modulations are computed for these two pairs, not for each position. Observed positions add an
    embedding of their own: among noise of norm sqrt(n) a one-hot vector would hardly be noticed.
    """

    def __init__(
        self, states: int, length: int, width: int = 128, layers: int = 4, heads: int = 4
    ) -> None:
        super().__init__()
        check_sizes(states, length)
        if layers < 1 or heads < 1 or width < 1 or width % (2 * heads):
            raise InputError(
                f"DiT: needs layers >= 1 and heads of even width, got {layers} layers of width "
                f"{width} with {heads} heads"
            )
        self.states, self.length = states, length
        self.width, self.heads = width, heads
        self.symbol = nn.Linear(states, width)
        self.observed_symbol = nn.Linear(states, width)
        self.position = nn.Parameter(torch.randn(length, width) / width**0.5)
        self.time = TimeFeatures(states, width)
        self.modulation = nn.Linear(width, 6 * width)
        self.layers = nn.ModuleList(DiTBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, states)
        for zero in (self.modulation, self.head):
            nn.init.zeros_(zero.weight)
            nn.init.zeros_(zero.bias)

    @classmethod
    def sized(cls, states: int, length: int, parameters: float) -> "DiT":
        """The largest network with at most this many parameters, of width 16 or more."""
        width = HEAD // 2
        while _count(states, length, width + head_width(width)) <= parameters:
            width += head_width(width)
        return cls(states, length, width, depth(width), width // head_width(width))

    def forward(self, x: Point, r: Times, t: Times) -> Logits:
        """Points ``(*batch, D, n)`` and times ``(*batch, D or 1)`` to logits ``(*batch, D, n)``.

        If times have D entries, those below 1 must be equal within a sequence.
        """
        check_points("DiT", x, self.states, self.length)
        h = self.symbol(x)
        h = h + self.position.to(h.dtype)
        h = h + torch.where((r == 1)[..., None], self.observed_symbol(x), 0)
        r, t, observed = two_times(r, t)
        times = self.modulation(self.time(r, t)).unflatten(-1, (6, -1))  # (*batch, 1 or 2, 6, w)
        for layer in self.layers:
            h = layer(h, times, observed)
        return self.head(self.norm(h))


def two_times(r: Times, t: Times) -> tuple[Times, Times, Tensor | None]:
    """Times of the generated and of the observed positions, ``(*batch, 2)``, and their mask.

    The mask has shape ``(*batch, D, 1)``. It is None if all positions share their times,
    ``(*batch, 1)``.
    """
    r, t = torch.broadcast_tensors(*torch.atleast_1d(r, t))
    if r.shape[-1] == 1:
        return r, t, None
    first = r.argmin(-1, keepdim=True)  # a generated position, if there is one
    r_both, t_both = (
        torch.cat([s.gather(-1, first), torch.ones_like(s[..., :1])], -1) for s in (r, t)
    )
    return r_both, t_both, (r == 1)[..., None]


def head_width(width: int) -> int:
    return HEAD // 2 if width < NARROW else HEAD if width < WIDE else 2 * HEAD


def depth(width: int) -> int:
    """One per 32 units of width, up to 12: depth replaces the steps of a many-step sampler."""
    return max(1, min(width // HEAD, DEEPEST))


def _count(states: int, length: int, width: int) -> int:
    """Parameters of the sized network of this width."""
    layer = 12 * width**2 + 15 * width
    ends = (3 * states + length + 4) * width + states
    return depth(width) * layer + ends + 9 * width**2 + 8 * width


class DiTBlock(nn.Module):
    """``h + gate attention(norm(h))``, then ``h + gate feed_forward(norm(h))``.

    In mixed precision h and its gradient stay in half precision between layers: moving them takes
    most of a step's time.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.zeros(6, width))
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.attention = Attention(width, heads)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, h: Tensor, times: Tensor, observed: Tensor | None) -> Tensor:
        vectors = (times + self.own).unbind(-2)
        if observed is not None:  # one by one: all six would be stored for every position
            vectors = tuple(torch.where(observed, v[..., 1:, :], v[..., :1, :]) for v in vectors)
        shift, scale, gate, shift_2, scale_2, gate_2 = vectors
        mixed = self.attention(self.norm(h) * (1 + scale) + shift)
        h = (h + gate * mixed).to(h.dtype)
        fed = self.feed_forward(self.norm(h) * (1 + scale_2) + shift_2)
        return (h + gate_2 * fed).to(h.dtype)
