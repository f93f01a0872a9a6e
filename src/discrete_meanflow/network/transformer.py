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
from discrete_meanflow.network.time_embedding import SinusoidalEmbedding
from discrete_meanflow.simplex import as_point
from discrete_meanflow.types import Logits, State, Times

# Up to so many positions and so wide heads the first of these is quicker than torch's choice. Only
# the two are allowed, not put first: torch sets an order of its own when it first chooses.
SHORT, NARROW = 64, 64
TILE = 64  # positions that a fused kernel works on at once, however few there are
FOR_SHORT = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class Transformer(nn.Module):
    """The paper's network for sequences: every position sees every other and both times.

    Symbol, position and the projected embeddings of (r, t) are added; pre-norm layers of
    self-attention and a GELU feed-forward follow; the output has n logits for each position.
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

    def forward(self, x: State, r: Times, t: Times) -> Logits:
        """States ``(*batch, D)`` or points ``(*batch, D, n)``, times ``(*batch, D or 1)`` -> logits
        ``(*batch, D, n)``."""
        symbols = self.symbol(as_point(x, self.states, t.dtype))  # (*batch, D, width)
        times = self.time(torch.cat([self.embed(r), self.embed(t)], -1))
        return self.head(self.norm(self.layers(symbols + self.position + times)))


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
    """Self-attention over the second last axis.

    On a GPU in half precision a fused kernel does it in one go. Fused kernels have no forward-mode
    derivative, and the identity needs d/dt: where one is taken of it, attention is written out.
    """

    def __init__(self, width: int, heads: int, rotation: nn.Module | None = None) -> None:
        super().__init__()
        self.heads, self.rotation = heads, rotation
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (  # each (*batch, heads, D, w)
            part.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
            for part in self.query_key_value(x).chunk(3, -1)
        )
        if self.rotation is not None:
            query, key = self.rotation(query), self.rotation(key)
        fused = half_on_gpu(value) and unpack_dual(value).tangent is None
        mixed = (attend_in_tiles if fused else attend)(query, key, value)
        return self.out(mixed.transpose(-2, -3).flatten(-2))


def half_on_gpu(x: Tensor) -> bool:
    return x.is_cuda and x.element_size() == 2


def quick_attention(network: nn.Module, length: int) -> AbstractContextManager[None]:
    """Within it, the fused kernel that is quickest for a network and so many positions
    (bench/attention.py).

    The choice is torch's global one and takes time to make: it is for code that is traced, once.
    """
    parts = [part for part in network.modules() if isinstance(part, Attention)]
    wide = max((part.out.in_features // part.heads for part in parts), default=NARROW + 1)
    if length > SHORT or wide > NARROW or wide % 8:  # it has none of other widths
        return contextlib.nullcontext()
    return sdpa_kernel(FOR_SHORT)


def attend_in_tiles(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """``attend`` by a fused kernel, as many short sequences to a tile as fit: a mask keeps them
    apart."""
    together, length = _fitting(query), query.shape[-2]
    if together == 1:
        return scaled_dot_product_attention(query, key, value)
    queries, keys, values = (_side_by_side(part, together) for part in (query, key, value))
    of = torch.arange(together * length, device=query.device) // length
    mixed = scaled_dot_product_attention(queries, keys, values, of[:, None] == of)
    return mixed.unflatten(-2, (together, -1)).transpose(-3, -4).reshape(query.shape)


def _fitting(query: Tensor) -> int:
    """How many sequences share a tile: a power of two that divides their number."""
    if is_batchedtensor(query):  # over stacked seeds torch's fused kernels misread a mask
        return 1
    sequences, length, together = math.prod(query.shape[:-3]), query.shape[-2], 1
    while 2 * together * length <= TILE and sequences % (2 * together) == 0:
        together *= 2
    return together


def _side_by_side(part: Tensor, together: int) -> Tensor:
    """``(*batch, heads, D, w) -> (n, heads, together D, w)``, mostly without moving anything."""
    tiles = part.reshape(-1, together, *part.shape[-3:])
    return tiles.transpose(1, 2).flatten(2, 3)


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """``softmax(Q K^T / sqrt(w)) V``, each ``(*batch, heads, D, w)``."""
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    return scores.softmax(-1) @ value
