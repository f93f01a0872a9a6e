"""What the page may ask, with the bounds of every number."""

from typing import Annotated

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator

from discrete_meanflow.ctmc.chains import from_rates
from discrete_meanflow.ctmc.generator import ConstantGenerator

MOST_STATES = 12
LARGEST_RATE = 50.0
MOST_DRAWS = 10_000
MOST_STEPS, MOST_COLUMNS = 64, 6
MOST_RECORDS = 200
LARGEST_SEED = 2**32 - 1
SHORTEST = 0.01  # of an interval (r, t)

Rate = Annotated[float, Field(ge=0, le=LARGEST_RATE, allow_inf_nan=False)]
Time = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
Steps = Annotated[int, Field(ge=1, le=MOST_STEPS)]
Row = Annotated[tuple[Rate, ...], Field(max_length=MOST_STATES)]


class Question(BaseModel):
    """The body of a request. Unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ChainRates(Question):
    """A finite chain.

    Args:
        rates: ``rates[y][x]``, of jumps from x to y; zero for y = x.
    """

    rates: Annotated[tuple[Row, ...], Field(min_length=2, max_length=MOST_STATES)]

    @model_validator(mode="after")
    def _is_a_chain(self) -> "ChainRates":
        n = len(self.rates)
        if any(len(row) != n for row in self.rates):
            raise ValueError(f"needs {n} rates in each of {n} rows")
        if any(self.rates[x][x] for x in range(n)):
            raise ValueError("the rate of a state to itself must be 0")
        if not any(map(any, self.rates)):
            raise ValueError("at least one rate must be more than 0")
        return self

    @property
    def generator(self) -> ConstantGenerator:
        return ConstantGenerator(from_rates(torch.tensor(self.rates, dtype=torch.float64)))


class ChainQuestion(ChainRates):
    """What to show of a chain.

    Args:
        r: the first time.
        t: the last time.
        start: the state at time r.
        draws: one-step samples of the learned kernel.
        seed: of the samples.
    """

    r: Time
    t: Time
    start: Annotated[int, Field(ge=0)]
    draws: Annotated[int, Field(ge=1, le=MOST_DRAWS)]
    seed: Seed

    @model_validator(mode="after")
    def _is_possible(self) -> "ChainQuestion":
        if self.t - self.r < SHORTEST - 1e-9:
            raise ValueError(f"t must be at least r + {SHORTEST}")
        if self.start >= len(self.rates):
            raise ValueError(f"start must be less than {len(self.rates)}")
        return self


class SampleQuestion(Question):
    """Which records to generate.

    Args:
        count: number of records.
        steps: numbers of steps; each starts from the same noise.
        seed: of the noise.
        fixed: pairs of a position and its token.
    """

    count: Annotated[int, Field(ge=1, le=MOST_RECORDS)]
    steps: Annotated[tuple[Steps, ...], Field(min_length=1, max_length=MOST_COLUMNS)]
    seed: Seed
    fixed: tuple[tuple[int, int], ...] = ()
