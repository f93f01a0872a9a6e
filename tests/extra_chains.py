"""Chains that test what the paper's chains do not: dense, pulsing, and with many states."""

import math

import torch
from torch import Tensor

from discrete_meanflow.ctmc import ConstantGenerator, JumpRates, TimeVaryingGenerator
from discrete_meanflow.ctmc.chains import _shift, from_rates
from discrete_meanflow.ctmc.uniformization import uniformized_action
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Matrix, Times, Tokens


def random_dense(n: int, g: torch.Generator, scale: float = 3.0) -> ConstantGenerator:
    """Every jump possible, rates exponential with mean ``scale / n``."""
    rates = torch.empty(n, n, dtype=torch.float64).exponential_(generator=g) * scale / n
    return ConstantGenerator(from_rates(rates - torch.diag(rates.diagonal())))


def pulsed_ring(n: int = 3) -> TimeVaryingGenerator:
    """A ring whose two rates pulse. Rotations commute, so K has a closed form."""

    def u(t: Times) -> Matrix:
        ahead, back = (_shift(n, by, wrap=True, device=t.device) for by in (1, -1))
        phase = 2 * math.pi * t[..., None, None]
        return from_rates((2 + phase.sin()) * ahead + (1 + phase.cos() / 2) * back)

    return TimeVaryingGenerator(u, f"pulsed_ring({n})")


class Epidemic(JumpRates):
    """The SIR epidemic with S susceptible and I infected among N.

    (S, I) -> (S - 1, I + 1) at rate ``contact S I / N``; I -> I - 1 at rate ``recovery I``.
    A state is the index ``S (N + 1) + I``: a population of 100 has 10,201 of them.
    """

    def __init__(self, population: int = 100, contact: float = 3.0, recovery: float = 1.0) -> None:
        if population < 1 or contact < 0 or recovery < 0:
            raise InputError("Epidemic: needs a population of at least 1 and rates >= 0")
        self.population, self.contact, self.recovery = population, contact, recovery

    def encode(self, susceptible: Tensor, infected: Tensor) -> Tokens:
        return susceptible * (self.population + 1) + infected

    def decode(self, x: Tokens) -> tuple[Tensor, Tensor]:
        return x // (self.population + 1), x % (self.population + 1)

    def jumps(self, x: Tokens, t: Times) -> tuple[Tensor, Tensor]:
        susceptible, infected = self.decode(x)
        infection = self.contact * susceptible * infected / self.population
        recovery = self.recovery * infected
        targets = torch.stack([x - (self.population + 1) + 1, x - 1], -1)
        return targets, torch.stack([infection, recovery], -1).to(t.dtype)

    def __repr__(self) -> str:
        return f"Epidemic({self.population}, contact={self.contact}, recovery={self.recovery})"


def uniformization(generator: ConstantGenerator, r: float, t: float) -> Matrix:
    """``K_{r,t}`` of a constant generator by uniformization, shape ``(n, n)``."""
    identity = torch.eye(generator.states, dtype=torch.float64)
    return uniformized_action(lambda v: generator.matrix @ v, generator.max_rate, identity, t - r)
