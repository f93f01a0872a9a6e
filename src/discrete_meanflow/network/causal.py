import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from discrete_meanflow.errors import InputError
from discrete_meanflow.network.dit import depth, head_width
from discrete_meanflow.network.logit_mask import NEVER, LogitMask
from discrete_meanflow.network.points import check_points
from discrete_meanflow.network.transformer import Attention, check_sizes
from discrete_meanflow.types import Logits, Point, Times

# The keys and the values of each layer in turn, ``(*batch, heads, D, w)``: tensors of their own,
# because compiled code would copy a larger one to write into a part of it.
Cache = list[Tensor]


class CausalTransformer(nn.Module):
    """An autoregressive Transformer: the logits of a position depend on the points before it.

    Pre-norm layers of causal self-attention, as in GPT-2 (Radford et al. 2019), with the widths,
    heads and depths of :class:`DiT`. Positions are learned. It sees no times. ``step`` evaluates
    one position and keeps the keys and values of earlier ones in a cache.
    """

    def __init__(
        self, states: int, length: int, width: int = 128, layers: int = 4, heads: int = 4
    ) -> None:
        super().__init__()
        check_sizes(states, length)
        if layers < 1 or heads < 1 or width < 1 or width % heads:
            raise InputError(
                f"CausalTransformer: needs layers >= 1 and a width that {heads} heads divide, got "
                f"{layers} layers of width {width}"
            )
        self.states, self.length, self.width, self.heads = states, length, width, heads
        self.symbol = nn.Linear(states, width, bias=False)
        self.position = nn.Parameter(torch.randn(length, width) / width**0.5)
        self.layers = nn.ModuleList(CausalLayer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, states)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @classmethod
    def sized(cls, states: int, length: int, parameters: float) -> "CausalTransformer":
        """The largest network with at most this many parameters, of width 16 or more."""
        width = head_width(1)
        while _count(states, length, width + head_width(width)) <= parameters:
            width += head_width(width)
        return cls(states, length, width, depth(width), width // head_width(width))

    def forward(self, x: Point, r: Times, t: Times) -> Logits:
        """Points ``(*batch, D, n)`` to logits ``(*batch, D, n)``; times are ignored."""
        check_points("CausalTransformer", x, self.states, self.length)
        h = self.symbol(pad(x[..., :-1, :], (0, 0, 1, 0)))
        h = h + self.position.to(h.dtype)
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h))

    def cache(self, batch: torch.Size) -> Cache:
        """Empty keys and values, in the current precision."""
        half = torch.is_autocast_enabled(self.position.device.type)
        dtype = torch.get_autocast_dtype(self.position.device.type) if half else None
        shape = (*batch, self.heads, self.length, self.position.shape[-1] // self.heads)
        return [self.position.new_zeros(shape, dtype=dtype) for _ in range(2 * len(self.layers))]

    def step(self, previous: Point, i: Tensor, cache: Cache) -> Logits:
        """Logits of position i, ``(*batch, n)``, which are those of ``forward``. No gradient.

        Args:
            previous: the point at position i - 1, ``(*batch, n)``; 0 at the first.
            i: the position, shape ``(1,)``.
            cache: keys and values of the positions before i; those of i are written into it.
        """
        h = self.symbol(previous[..., None, :])
        h = h + self.position[i].to(h.dtype)
        for layer, keys, values in zip(self.layers, cache[::2], cache[1::2], strict=True):
            assert isinstance(layer, CausalLayer)
            h = layer.step(h, i, keys, values)
        return self.head(self.norm(h))[..., 0, :]


class CausalLogitMask(LogitMask):
    """A logit mask of a causal network, which can also be evaluated position by position."""

    network: CausalTransformer

    @property
    def length(self) -> int:
        return self.network.length

    def cache(self, batch: torch.Size) -> Cache:
        """See :class:`CausalTransformer`."""
        return self.network.cache(batch)

    def step(self, previous: Point, i: Tensor, cache: Cache) -> Logits:
        """See :class:`CausalTransformer`."""
        return torch.where(self.allowed[i], self.network.step(previous, i, cache), NEVER)


def _count(states: int, length: int, width: int) -> int:
    """Parameters of the sized network of this width."""
    layer = 12 * width**2 + 13 * width
    return depth(width) * layer + (2 * states + length + 2) * width + states


class CausalLayer(nn.Module):
    """``x + attention(norm(x))``, then ``x + feed_forward(norm(x))``."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal=True)
        self.norm_feed_forward = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_attention(x))
        return x + self.feed_forward(self.norm_feed_forward(x))

    def step(self, x: Tensor, i: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The layer at position i, x ``(*batch, 1, width)``, given its keys and values."""
        query, key, value = self.attention.project(self.norm_attention(x))
        keys.index_copy_(-2, i, key)
        values.index_copy_(-2, i, value)
        scores = query @ keys.transpose(-1, -2) * query.shape[-1] ** -0.5
        ahead = torch.arange(keys.shape[-2], device=x.device) > i
        mixed = scores.masked_fill(ahead, -torch.inf).softmax(-1).to(values.dtype) @ values
        x = x + self.attention.merge(mixed)
        return x + self.feed_forward(self.norm_feed_forward(x))
