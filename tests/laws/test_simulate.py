"""Simulated paths have the law of the chain."""

import pytest
import torch

from discrete_meanflow.ctmc import chains
from discrete_meanflow.ctmc.simulate import JumpRates, MatrixRates, simulate
from discrete_meanflow.ctmc.transition import transition
from discrete_meanflow.ctmc.uniformization import uniformized_action
from discrete_meanflow.errors import InputError
from dmf_reproduction.bulk_queue import BulkQueue, truncate
from extra_chains import Epidemic
from problems import GENERATORS, seeded
from statistics_of_draws import passes_chi_square

N = 20_000


def times(r, t):
    return torch.full((N,), r, dtype=torch.float64), torch.full((N,), t, dtype=torch.float64)


@pytest.mark.parametrize("u", GENERATORS.values(), ids=GENERATORS)
def test_endpoints_follow_the_kernel(u):
    r, t = times(0.2, 0.9)
    y = simulate(MatrixRates(u), torch.ones(N, dtype=torch.long), r, t, seeded())
    assert passes_chi_square(y, transition(u, 0.2, 0.9)[:, 1])


@pytest.mark.parametrize(
    ("rates", "n", "start"),
    [
        (BulkQueue(), 400, 2),
        (Epidemic(12), 169, Epidemic(12).encode(10, 2)),
    ],
    ids=["queue", "epidemic"],
)
def test_a_chain_without_a_matrix_follows_its_truncated_one(rates, n, start):
    r, t = times(0.0, 1.0)
    y = simulate(rates, torch.full((N,), start), r, t, seeded())
    u = truncate(rates, n)
    p = torch.zeros(n, dtype=torch.float64)
    p[start] = 1
    bound = -u.to_dense().diagonal().min().item()
    assert passes_chi_square(y, uniformized_action(lambda v: u @ v, bound, p, 1.0))


def test_the_chi_square_test_can_fail():
    r, t = times(0.0, 0.5)
    y = simulate(MatrixRates(chains.ring()), torch.zeros(N, dtype=torch.long), r, t, seeded())
    assert not passes_chi_square(y, transition(chains.ring(), 0.0, 0.6)[:, 0])


def test_an_absorbing_state_stays():
    x = torch.full((10,), Epidemic(12).encode(5, 0))
    r, t = torch.zeros(10, dtype=torch.float64), torch.ones(10, dtype=torch.float64)
    assert (simulate(Epidemic(12), x, r, t, seeded()) == x).all()


def test_bad_times_are_rejected():
    x, rates = torch.zeros(2, dtype=torch.long), MatrixRates(chains.ring())
    half, one = torch.full((2,), 0.5), torch.ones(2)
    with pytest.raises(InputError, match="r must not exceed t"):
        simulate(rates, x, one, half, seeded())


def test_a_bound_that_is_too_low_is_rejected():
    class Liar(JumpRates):
        def jumps(self, x, t):
            return (1 - x)[:, None], torch.full((len(x), 1), 5.0, dtype=torch.float64)

        def exit_bound(self, x, t):
            return torch.ones_like(t)

    r, t = times(0.0, 1.0)
    with pytest.raises(InputError, match="exceeds its bound 1"):
        simulate(Liar(), torch.zeros(N, dtype=torch.long), r, t, seeded())
