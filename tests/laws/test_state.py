"""Laws of the state spaces."""

import pytest
import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.simplex import delta
from discrete_meanflow.state import Continuous, Discrete
from problems import seeded

SPACES = {"discrete": Discrete(4), "continuous": Continuous(4), "ordered": Continuous(4, (4, 0, 3))}
every_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)


def some_state(space, seed=0):
    if isinstance(space, Continuous):
        return torch.randn(5, 3, 4, generator=seeded(seed))
    return torch.randint(4, (5, 3), generator=seeded(seed))


@every_space
def test_positions_and_points_have_their_shapes(space):
    x = some_state(space)
    space.check(x)
    assert space.positions(x) == (5, 3)
    assert space.point(x, torch.float32).shape == (5, 3, 4)
    times = torch.zeros(space.time_shape(x))
    assert torch.broadcast_shapes(times.shape, (5, 3)) == (5, 3)


@every_space
def test_where_selects_positions(space):
    a, b = some_state(space, 1), some_state(space, 2)
    mask = torch.tensor([True, False, True]).expand(5, 3)
    mixed = space.where(mask, a, b)
    assert torch.equal(mixed[mask], a[mask])
    assert torch.equal(mixed[~mask], b[~mask])


@every_space
def test_observed_positions_hold_the_corners_of_their_tokens(space):
    x, tokens = some_state(space), torch.randint(4, (5, 3), generator=seeded(3))
    observed = torch.rand(5, 3, generator=seeded(4)) < 0.5
    y = space.observe(x, tokens, observed)
    if isinstance(space, Continuous):
        assert torch.equal(y[observed], delta(tokens, 4, torch.float32)[observed])
    else:
        assert torch.equal(y[observed], tokens[observed])
    assert torch.equal(y[~observed], x[~observed])


@every_space
@pytest.mark.parametrize(
    ("tokens", "observed", "message"),
    [
        (torch.zeros(5, 3).long(), torch.ones(5, 3), "observed must be bool"),
        (torch.zeros(5, 3).long(), torch.ones(5, 2, dtype=torch.bool), "observed must be bool"),
        (torch.full((5, 3), 4), torch.ones(5, 3, dtype=torch.bool), "must lie in 0 .. 3"),
        (torch.zeros(5, 3), torch.ones(5, 3, dtype=torch.bool), "must be integers"),
    ],
)
def test_bad_observations_are_rejected(space, tokens, observed, message):
    with pytest.raises(InputError, match=message):
        space.observe(some_state(space), tokens, observed)


@every_space
def test_states_of_the_other_space_are_rejected(space):
    other = SPACES["discrete" if isinstance(space, Continuous) else "continuous"]
    with pytest.raises(InputError, match="start"):
        space.check(some_state(other))
