"""Laws of every chain process."""

import pytest
import torch

from discrete_meanflow.ctmc.transition import transition
from discrete_meanflow.errors import InputError
from discrete_meanflow.process import ChainProcess, SimulatedProcess
from discrete_meanflow.simplex import categorical, quantile, spread_levels
from discrete_meanflow.times import TimePair
from dmf_reproduction.bulk_queue import BulkQueue, truncate
from problems import GENERATORS, processes, seeded
from statistics_of_draws import passes_chi_square

PROCESSES = processes()
CHAINS = {k: p for k, p in PROCESSES.items() if isinstance(p, ChainProcess)}
every_process = pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES)
every_chain = pytest.mark.parametrize("process", CHAINS.values(), ids=CHAINS)
N = 20_000


def at(r, t, n=N):
    return TimePair(
        torch.full((n,), r, dtype=torch.float64), torch.full((n,), t, dtype=torch.float64)
    )


@every_process
def test_the_source_is_the_initial_law(process):
    assert passes_chi_square(process.source((N,), seeded()), process.initial)


@every_chain
def test_paths_follow_the_chain(process):
    path = process.path(at(0.3, 0.8), seeded(1), draws=2)
    u = process.generator
    p_r = transition(u, 0.0, 0.3) @ process.initial
    # Stratified draws depend on each other: their frequencies are closer to the law, not further.
    assert passes_chi_square(path.x, p_r)
    for x in range(u.states):
        ends = path.y[path.x == x]
        assert ends.shape[1] == 2
        assert passes_chi_square(ends.flatten(), transition(u, 0.3, 0.8)[:, x])


@every_chain
def test_the_law_of_a_path_is_the_kernel(process):
    path = process.path(at(0.3, 0.8, 100), seeded())
    exact = transition(process.generator, 0.3, 0.8).T[path.x]
    assert (path.law - exact).abs().max() < 1e-6


@every_process
def test_rates_are_columns_of_a_generator(process):
    y = torch.arange(process.states)
    t = torch.full((process.states,), 0.6, dtype=torch.float64)
    u = process.rate(y, t)
    assert u.sum(-1).abs().max() < 1e-12
    assert (u - torch.diag(u.diagonal())).min() >= 0
    if isinstance(process, ChainProcess):
        exact = process.generator.at(torch.tensor(0.6, dtype=torch.float64))
        assert (u.T - exact).abs().max() < 1e-12
    else:
        exact = truncate(process.rates, process.states).to_dense()
        assert (u.T - exact).abs().max() < 1e-12


@every_chain
def test_flow_is_the_generator_acting(process):
    p = torch.softmax(torch.randn(7, process.states, generator=seeded(), dtype=torch.float64), -1)
    t = torch.linspace(0, 1, 7, dtype=torch.float64)
    exact = (process.generator.at(t) @ p[..., None])[..., 0]
    assert (process.flow(p, t) - exact).abs().max() < 1e-12


def test_simulated_paths_follow_the_matrix():
    process = PROCESSES["queue"]
    u = truncate(process.rates, process.states).to_dense()
    path = process.path(at(0.4, 0.9), seeded())
    assert passes_chi_square(path.x, torch.linalg.matrix_exp(0.4 * u) @ process.initial)
    exact = torch.linalg.matrix_exp(0.5 * u)
    for x in range(3):
        assert passes_chi_square(path.y[path.x == x].flatten(), exact[:, x])


def test_stratified_draws_vary_less():
    """The batch mean of an indicator: same expectation, a variance many times smaller."""
    law = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64).expand(256, 3)
    key = torch.rand(256, generator=seeded(), dtype=torch.float64)
    g = seeded(1)
    iid = torch.stack([(categorical(law, g) == 1).double().mean() for _ in range(300)])
    spread = torch.stack(
        [(quantile(law, spread_levels(key, 1, g)) == 1).double().mean() for _ in range(300)]
    )
    assert abs(spread.mean().item() - 0.5) < 1e-3
    assert spread.var() < iid.var() / 50


def test_each_stratified_level_is_uniform():
    key = torch.rand(8, generator=seeded(), dtype=torch.float64).expand(N, 8)
    levels = spread_levels(key, 1, seeded(1))[:, 3, 0]
    assert passes_chi_square((levels * 10).long(), torch.full((10,), 0.1))


def test_a_window_that_is_too_small_is_rejected():
    process = SimulatedProcess(BulkQueue(), 8)
    with pytest.raises(InputError, match="8 states; increase them"):
        process.path(at(0.5, 1.0, 100), seeded())


def test_a_bad_initial_law_is_rejected():
    with pytest.raises(InputError, match="sum to 1"):
        ChainProcess(GENERATORS["ring"], torch.tensor([0.5, 0.5, 0.5]))
    with pytest.raises(InputError, match="3 probabilities"):
        ChainProcess(GENERATORS["ring"], torch.tensor([0.5, 0.5]))
