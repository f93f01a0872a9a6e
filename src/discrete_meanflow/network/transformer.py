import contextlib
import math
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch._C._functorch import is_batchedtensor
from torch.autograd.forward_ad import unpack_dual
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from discrete_meanflow.errors import InputError
from discrete_meanflow.network.points import check_points
from discrete_meanflow.network.time_embedding import SinusoidalEmbedding
from discrete_meanflow.types import Logits, Point, Times

# For at most SHORT positions and heads of width NARROW the efficient kernel is faster than torch's
# choice. Others are disabled rather than ranked lower: torch resets the order at its first choice.
SHORT, NARROW = 64, 64
TILE = 64  # positions per tile of a fused kernel
FOR_SHORT = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class Transformer(nn.Module):
    """The paper's network for sequences: every position sees every other and both times.

    Symbol, position and the projected embeddings of (r, t) are added. Pre-norm layers of
    self-attention and a GELU feed-forward follow. The output has n logits for each position.
    With the defaults and the paper's alphabets it has 334,213 to 340,369 parameters (336,265 at
    V = 8, D = 16).
    """

    def __init__(
        self,
        states: int,
        length: int,
        width: int = 128,
        layers: int = 3,
        heads: int = 4,
        feed_forward: int = 128,
        time_width: int = 128,
    ) -> None:
        super().__init__()
        check_sizes(states, length)
        if layers < 1 or heads < 1 or width < 1 or width % heads:
            raise InputError(
                f"Transformer: needs layers >= 1 and a width that {heads} heads divide, got "
                f"{layers} layers of width {width}"
            )
        self.states, self.length = states, length
        self.symbol = nn.Linear(states, width, bias=False)
        self.position = nn.Parameter(torch.randn(length, width) / width**0.5)
        self.embed = SinusoidalEmbedding(time_width)
        self.time = nn.Linear(2 * time_width, width)
        self.layers = nn.Sequential(*(Layer(width, heads, feed_forward) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, states)

    def forward(self, x: Point, r: Times, t: Times) -> Logits:
        """Points ``(*batch, D, n)`` and times ``(*batch, D or 1)`` to logits ``(*batch, D, n)``."""
        check_points("Transformer", x, self.states, self.length)
        times = self.time(torch.cat([self.embed(r), self.embed(t)], -1))
        h = self.symbol(x) + self.position + times  # (*batch, D, width)
        return self.head(self.norm(self.layers(h)))


def check_sizes(states: int, length: int) -> None:
    if states < 2 or length < 1:
        raise InputError(
            f"Transformer: needs at least 2 states and 1 position, got {states} and {length}"
        )


class Layer(nn.Module):
    """``x + attention(norm(x))``, then ``x + feed_forward(norm(x))``."""

    def __init__(self, width: int, heads: int, feed_forward: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, feed_forward), nn.GELU(), nn.Linear(feed_forward, width)
        )
        self.norm_attention = nn.LayerNorm(width)
        self.norm_feed_forward = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_attention(x))
        return x + self.feed_forward(self.norm_feed_forward(x))


class Attention(nn.Module):
    """Self-attention over the second last axis; causal if a position sees none after it.

    On a GPU in half precision it uses a fused kernel. Fused kernels have no forward-mode
    derivative, which the identity needs for d/dt, so under a jvp attention is written out.
    """

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x)
        fused = half_on_gpu(value) and unpack_dual(value).tangent is None
        mixed = (attend_in_tiles if fused else attend)(query, key, value, self.causal)
        return self.merge(mixed)

    def project(self, x: Tensor) -> list[Tensor]:
        """Query, key and value, each ``(*batch, heads, D, w)``."""
        return [
            part.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
            for part in self.query_key_value(x).chunk(3, -1)
        ]

    def merge(self, mixed: Tensor) -> Tensor:
        return self.out(mixed.transpose(-2, -3).flatten(-2))

    def extra_repr(self) -> str:
        return "causal" if self.causal else ""


def half_on_gpu(x: Tensor) -> bool:
    return x.is_cuda and x.element_size() == 2


def quick_attention(network: nn.Module, length: int) -> AbstractContextManager[None]:
    """Context with the fastest fused kernel for a network and length (bench/attention.py).

    It sets torch's global choice, which takes time: use it around tracing, not in every step.
    """
    parts = [part for part in network.modules() if isinstance(part, Attention)]
    wide = max((part.out.in_features // part.heads for part in parts), default=NARROW + 1)
    if length > SHORT or wide > NARROW or wide % 8:  # it supports no other widths
        return contextlib.nullcontext()
    return sdpa_kernel(FOR_SHORT)


def attend_in_tiles(query: Tensor, key: Tensor, value: Tensor, causal: bool = False) -> Tensor:
    """``attend`` by a fused kernel; several short sequences share a tile, kept apart by a mask."""
    together, length = _fitting(query), query.shape[-2]
    if together == 1:
        return scaled_dot_product_attention(query, key, value, is_causal=causal)
    queries, keys, values = (_side_by_side(part, together) for part in (query, key, value))
    of = torch.arange(together * length, device=query.device) // length
    seen = of[:, None] == of
    seen = seen.tril() if causal else seen
    mixed = scaled_dot_product_attention(queries, keys, values, seen)
    return mixed.unflatten(-2, (together, -1)).transpose(-3, -4).reshape(query.shape)


def _fitting(query: Tensor) -> int:
    """Sequences per tile: a power of two that divides their number."""
    if is_batchedtensor(query):  # under vmap torch's fused kernels misread a mask
        return 1
    sequences, length, together = math.prod(query.shape[:-3]), query.shape[-2], 1
    while 2 * together * length <= TILE and sequences % (2 * together) == 0:
        together *= 2
    return together


def _side_by_side(part: Tensor, together: int) -> Tensor:
    """``(*batch, heads, D, w) -> (n, heads, together D, w)``, mostly without a copy."""
    tiles = part.reshape(-1, together, *part.shape[-3:])
    return tiles.transpose(1, 2).flatten(2, 3)


def attend(query: Tensor, key: Tensor, value: Tensor, causal: bool = False) -> Tensor:
    """``softmax(Q K^T / sqrt(w)) V``, each ``(*batch, heads, D, w)``."""
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    if causal:
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(ahead, -torch.inf)
    return scores.softmax(-1) @ value
