import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.process.minibatch_ot import assign_noise
from discrete_meanflow.process.sequence import SequenceProcess
from discrete_meanflow.schedule import Linear
from discrete_meanflow.simplex import delta, interpolate
from discrete_meanflow.state import Continuous
from discrete_meanflow.types import Point, Probs, Times, Tokens

LINEAR = Linear()
SMALLEST_REST = 1e-6  # lower bound of 1 - r where it divides


class OneHotFlow(SequenceProcess):
    """A position is a point of R^V: ``x_r = (1 - r) z + r e_{x1}`` with normal noise z.

    The continuous counterpart of the discrete processes: the point x replaces ``delta_x``. All
    randomness is in z, so one step can generate positions that depend on each other. Flow
    matching on one-hot vectors (Flow Map Language Models, arXiv:2602.16813; Discrete Flow Maps,
    arXiv:2604.09784).

    Bridge: ``(1 - alpha) x + alpha q``, a point. Velocity given x1: ``(e_{x1} - x)/(1 - t)``.

    Args:
        vocabulary: number of symbols V.
        minibatch_ot: group size for minibatch optimal transport (Tong et al. 2023,
            arXiv:2302.00482): within a group, noise is assigned to nearby sequences, which
            straightens trajectories. 0 keeps noise independent of the data. Sequences with
            observed positions keep independent noise: theirs must be normal given the observed
            tokens.
        ordered: how many symbols of each position are ordered; see :class:`Continuous`.
    """

    space: Continuous

    def __init__(
        self, vocabulary: int, minibatch_ot: int = 0, ordered: tuple[int, ...] = ()
    ) -> None:
        super().__init__(vocabulary, Continuous(vocabulary, ordered))
        if minibatch_ot < 0:
            raise InputError(f"minibatch_ot must be a group size >= 0, got {minibatch_ot}")
        if minibatch_ot and ordered:
            raise InputError("one-hot flow: minibatch OT is for symbols without an order")
        self.minibatch_ot = minibatch_ot

    def source(self, shape: tuple[int, ...], g: torch.Generator) -> Point:
        """z: shape ``(*shape, V)``."""
        return self.space.noise(torch.randn(*shape, self.states, device=g.device, generator=g))

    def corrupt(self, x1: Tokens, r: Times, g: torch.Generator) -> Point:
        z, weight = self.source(tuple(x1.shape), g), r.float()[..., None]
        if self.minibatch_ot:
            z = assign_noise(z, x1, (r < 1).all(-1), self.minibatch_ot)
        return (1 - weight) * z + weight * delta(x1, self.states, z.dtype)

    def likelihood(self, x: Point, r: Times) -> Probs:
        """The density ``N(A x; r A e_{x1}, (1 - r)^2)``, scaled to a maximum of one."""
        if self.minibatch_ot:
            raise InputError("one-hot flow: p(x_r | x1) has no closed form with minibatch OT")
        r = r.double()[..., None]
        symbols = self.space.symbols(x.device).double()
        overlap = torch.einsum(
            "dki,...di->...dk", symbols, self.space.network_input(x.double(), r.dtype)
        )
        log = r * overlap - r**2 * symbols.square().sum(-1) / 2
        log = log / (1 - r).clamp(min=SMALLEST_REST).square()
        return (log - log.amax(-1, keepdim=True)).exp()

    def bridge(self, x: Point, q: Probs, r: Times, t: Times) -> Point:
        return interpolate(x, q, LINEAR(r, t))

    def advance(
        self, x: Point, x1: Tokens, r: Times, t: Times, g: torch.Generator, draws: int
    ) -> Point:
        """``x_t`` on the line from x to ``e_{x1}``, equal for all draws: ``(*batch, D, m, V)``."""
        q = delta(x1, self.states, x.dtype)
        there = self.bridge(x, q, r.to(x.dtype), t.to(x.dtype))
        return there[..., None, :].expand(*there.shape[:-1], draws, -1)

    def marginal_rate(self, x: Point, q: Probs, t: Times) -> Point:
        """The velocity ``(q - x)/(1 - t)``."""
        return (q - x) / (1 - t).clamp(min=SMALLEST_REST)[..., None]

    def extra_repr(self) -> str:
        return f"vocabulary={self.vocabulary}, minibatch_ot={self.minibatch_ot}"
