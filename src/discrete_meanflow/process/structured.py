import math

import torch
from torch import Tensor

from discrete_meanflow.ctmc.generator import ConstantGenerator
from discrete_meanflow.errors import InputError
from discrete_meanflow.process.sequence import SequenceProcess
from discrete_meanflow.simplex import categorical, delta
from discrete_meanflow.state import Discrete
from discrete_meanflow.types import Matrix, Probs, Times, Tokens

WORST_CONDITION = 1e6


class Structured(SequenceProcess):
    """Noise from any generator Q on the alphabet: ordinal, circular, uniform, ...

    Data at time 1 is noised backwards with the clock ``-log t``: from t to r < t the noising
    kernel is ``N_{t,r} = exp(log(t/r) Q)``. At r = 0 the clock is infinite, so the source is
    exactly the stationary law of Q. A uniform Q gives the ``x_r | x1`` of :class:`Uniform`; a Q
    that only masks gives :class:`Masking`.

    Bridge: ``K_{r,t}(y | x, x1) = N_{t,r}[x, y] N_{1,t}[y, x1] / N_{1,r}[x, x1]``. Conditional
    generator (its h-transform): ``u_t(y, x | x1) = Q[x, y]/t * N_{1,t}[y, x1]/N_{1,t}[x, x1]``.
    """

    rate_matrix: Tensor
    decay: Tensor
    turn: Tensor
    modes: Tensor
    stationary: Tensor

    def __init__(self, noise: ConstantGenerator, vocabulary: int | None = None) -> None:
        """noise: the generator Q; vocabulary: symbols of the data, by default all of Q's."""
        vocabulary = noise.states if vocabulary is None else vocabulary
        if noise.states < vocabulary:
            raise InputError(
                f"structured noise: the generator has {noise.states} states, the alphabet "
                f"{vocabulary} symbols"
            )
        super().__init__(vocabulary, Discrete(noise.states))
        self.noise = noise
        values, right = torch.linalg.eig(noise.matrix)
        condition = float(torch.linalg.cond(right))
        if not condition < WORST_CONDITION:
            raise InputError(
                f"structured noise: the generator cannot be diagonalised (condition number "
                f"{condition:.1e}); take fewer states or rates that differ less"
            )
        self.never = 1e-15 * max(1e3, condition)  # below this, a probability is rounding error
        # Rounding leaves the zero eigenvalue at 1e-16; a power 0^(1e-16) would still be 0.
        zero = values.abs() < 1e-10 * noise.max_rate
        values = torch.where(zero, torch.zeros_like(values), values)
        if int((values == 0).sum()) != 1:
            raise InputError("structured noise: the generator must have one stationary law")
        self.register_buffer("rate_matrix", noise.matrix, persistent=False)
        # exp(w Q) = sum_k e^(l_k w) M_k with l_k = -decay + i turn. In real arithmetic, the real
        # parts of M_k multiply cosines, the imaginary parts sines.
        modes = torch.einsum("xk,ky->kxy", right, torch.linalg.inv(right)).flatten(1)
        self.register_buffer("decay", -values.real, persistent=False)
        self.register_buffer("turn", values.imag, persistent=False)
        self.register_buffer("modes", torch.cat([modes.real, -modes.imag]), persistent=False)
        start = torch.zeros((), dtype=torch.float64)
        self.register_buffer("stationary", self.noising(start, start + 1)[:, 0], persistent=False)

    def noising(self, r: Times, t: Times) -> Matrix:
        """``N_{t,r}[x, y] = P(x_r = x | x_t = y)``: shape ``(*batch, n, n)``, dtype of t."""
        ratio = torch.where(t > 0, r / t.clamp(min=torch.finfo(t.dtype).tiny), 1.0).double()
        begun = ratio > 0  # at r = 0 only the stationary part is left
        w = -torch.where(begun, ratio, 1.0).log()[..., None]
        angle = self.turn * w
        size = torch.where(begun[..., None], torch.exp(-self.decay * w), (self.decay == 0).to(w))
        powers = torch.cat([size * angle.cos(), size * angle.sin()], -1)  # (*batch, 2 n)
        N = (powers @ self.modes).unflatten(-1, (self.states, self.states))
        # Remove rounding from the value but not from the derivative: entries are non-negative
        # and the boundary is the identity.
        still = (ratio == 1)[..., None, None]
        clean = N.clamp(min=0) / N.clamp(min=0).sum(-2, keepdim=True)
        clean = torch.where(still, torch.eye(self.states, dtype=N.dtype, device=N.device), clean)
        return (N + (clean - N).detach()).to(t.dtype)

    def source(self, shape: tuple[int, ...], g: torch.Generator) -> Tokens:
        return categorical(self.stationary, g, math.prod(shape)).view(shape)

    def corrupt(self, x1: Tokens, r: Times, g: torch.Generator) -> Tokens:
        N = self.noising(r, torch.ones_like(r))
        return categorical(_columns(N, x1), g)

    def likelihood(self, x: Tokens, r: Times) -> Probs:
        r = r.double()
        return _rows(self.noising(r, torch.ones_like(r)), x)[..., : self.vocabulary]

    def bridge(self, x: Tokens, q: Probs, r: Times, t: Times) -> Probs:
        one = torch.ones_like(t)
        N_rt, N_t, N_r = self.noising(r, t), self.noising(t, one), self.noising(r, one)
        ahead, past = _rows(N_rt, x), _rows(N_r, x)  # (*batch, D, n), in y and in x1
        # If x cannot come from an x1, there is no bridge: the state stays.
        possible = past > self.never
        weight = torch.where(possible, q / torch.where(possible, past, 1.0), 0.0)
        moved = ahead * (N_t @ weight[..., None])[..., 0]
        stay = torch.where(possible, 0.0, q).sum(-1, keepdim=True)
        return moved + stay * delta(x, self.states, q.dtype)

    def marginal_rate(self, x: Tokens, q: Probs, t: Times) -> Probs:
        # At t = 1 the rate towards x1 is infinite, as in MixturePath.
        t = t.clamp(max=1 - 2**-24).expand(x.shape)
        N = self.noising(t, torch.ones_like(t))  # N_{1,t}
        weight = q / _rows(N, x).clamp(min=self.never)
        ratio = (N @ weight[..., None])[..., 0]  # E_q N[y, x1] / N[x, x1]
        out = self.rate_matrix.to(t.dtype)[x] / t[..., None] * ratio  # Q[x, .]: into x
        here = delta(x, self.states, t.dtype)
        out = out * (1 - here)
        return out - here * out.sum(-1, keepdim=True)

    def extra_repr(self) -> str:
        return f"{self.noise}, vocabulary={self.vocabulary}"


def _columns(N: Matrix, x: Tokens) -> Probs:
    """``N[., x]``: ``(*batch or 1, n, n), (*batch) -> (*batch, n)``."""
    N = N.expand(*x.shape, -1, -1)
    return N.gather(-1, x[..., None, None].expand(*N.shape[:-1], 1))[..., 0]


def _rows(N: Matrix, x: Tokens) -> Probs:
    """``N[x, .]``."""
    return _columns(N.transpose(-1, -2), x)
