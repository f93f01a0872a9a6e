import torch
from torch import Tensor

from discrete_meanflow.data import Sequences
from discrete_meanflow.errors import InputError
from discrete_meanflow.process.conditioning import ObservedPositions
from discrete_meanflow.process.minibatch_ot import assign_noise
from discrete_meanflow.process.sequence import SequenceProcess
from discrete_meanflow.schedule import Linear
from discrete_meanflow.simplex import delta, interpolate
from discrete_meanflow.types import Point, Probs, State, Times

LINEAR = Linear()
CLOSEST = 1e-6  # to r = 1, where the state tells its token with certainty


class OneHotFlow(SequenceProcess):
    """A position is a point of R^V: ``x_r = (1 - r) z + r e_{x1}`` with normal noise z.

    The twin of the processes with hard states: the point x stands where ``delta_x`` stood. From
    masks, all that is random is drawn at the end, position by position; here it is in z from
    the start, so that one step can give positions that belong together.

    Bridge: ``(1 - alpha) x + alpha q``, a point. Velocity given x1: ``(e_{x1} - x)/(1 - t)``.

    ``matched``: within groups of so many training sequences, noise goes to data that are near. Any
    coupling whose noise is normal will do, and this one has straighter ways. Sequences with
    clamps keep independent noise: theirs must be normal given what is known.
    """

    def __init__(
        self, data: Sequences, conditioning: float | ObservedPositions = 0.0, minibatch_ot: int = 0
    ) -> None:
        super().__init__(data, data.vocabulary, conditioning)
        if minibatch_ot < 0:
            raise InputError(f"soft states: matched in groups of at least 1, got {minibatch_ot}")
        self.minibatch_ot = minibatch_ot

    def source(self, shape: tuple[int, ...], g: torch.Generator) -> Point:
        """z: shape ``(*shape, V)``."""
        return torch.randn(*shape, self.states, device=g.device, generator=g)

    def corrupt(self, x1: State, r: Times, g: torch.Generator) -> Point:
        z, share = self.source(tuple(x1.shape), g), r.float()[..., None]
        if self.minibatch_ot:
            z = assign_noise(z, x1, (r < 1).all(-1), self.minibatch_ot)
        return (1 - share) * z + share * delta(x1, self.states, z.dtype)

    def likelihood(self, x: Point, r: Times) -> Probs:
        """The normal density ``N(x; r e_{x1}, (1 - r)^2)``, scaled to at most one."""
        if self.minibatch_ot:
            raise InputError("soft states: with matched noise p(x_r | x1) has no closed form")
        r = r.double()[..., None]
        log = x.double() * r / (1 - r).clamp(min=CLOSEST).square()
        return (log - log.amax(-1, keepdim=True)).exp()

    def bridge(self, x: Point, q: Probs, r: Times, t: Times) -> Point:
        return interpolate(x, q, LINEAR(r, t))

    def advance(
        self, x: Point, x1: State, r: Times, t: Times, g: torch.Generator, draws: int
    ) -> Point:
        """``x_t`` on the line from x to ``e_{x1}``, for all draws: ``(*batch, D, V, m)``."""
        q = delta(x1, self.states, x.dtype)
        there = self.bridge(x, q, r.to(x.dtype), t.to(x.dtype))
        return there[..., None].expand(*there.shape, draws)

    def rate(self, y: Point, t: Times, x1: State) -> Point:
        rest = (1 - t).clamp(min=CLOSEST)[..., None]
        return (delta(x1, self.states, y.dtype) - y) / rest

    def extra_repr(self) -> str:
        groups = f"minibatch_ot={self.minibatch_ot}" if self.minibatch_ot else ""
        return ", ".join(filter(None, (super().extra_repr(), groups)))

    def hold(self, x: Point, tokens: State, held: Tensor) -> Point:
        self.check_held(tokens, held)
        return torch.where(held[..., None], delta(tokens, self.states, x.dtype), x)
