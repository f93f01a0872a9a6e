"""Laws of the cached sampler: the same samples from fewer evaluations."""

import pytest
import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import BridgeKernel
from discrete_meanflow.network import TimelessNetwork, Transformer
from discrete_meanflow.process import Masking
from discrete_meanflow.sampler import CachedSampler, KernelSampler, temperature
from laws.joint_law import LAW, OneHot, exact_kernel, joint_states
from problems import seeded
from statistics_of_draws import passes_chi_square

V, D, N = 3, 6, 200
PROCESS = Masking(V)


def kernel():
    torch.manual_seed(0)
    network = Transformer(V + 1, D, 16, 2, 2, 16, 8)
    for p in network.parameters():
        p.data.mul_(2)
    return BridgeKernel(TimelessNetwork(network), PROCESS, PROCESS.token).double()


def count_rows(network):
    rows = []
    hook = network.register_forward_hook(lambda module, args, out: rows.append(len(args[0])))
    return rows, hook


@pytest.mark.parametrize("steps", [1, 4, 64])
@pytest.mark.parametrize("observe", [False, True])
def test_samples_are_those_of_the_kernel_sampler(steps, observe):
    grid = torch.linspace(0, 1, steps + 1, dtype=torch.float64).tolist()
    condition = ()
    if observe:
        condition = (torch.ones(N, D, dtype=torch.long), torch.arange(D).expand(N, D) == 2)
    plain, cached = (
        sampler(kernel(), grid, [temperature(0.8)]) for sampler in (KernelSampler, CachedSampler)
    )
    x = PROCESS.source((N, D), seeded())
    rows, _ = count_rows(cached.kernel.network)
    assert torch.equal(
        cached.sample(x, seeded(1), *condition), plain.sample(x, seeded(1), *condition)
    )
    assert cached.evaluations == pytest.approx(sum(rows) / N)
    assert cached.evaluations <= min(steps, D + 1)
    assert steps > D or cached.evaluations > 0.5 * steps
    cached.sample(x, seeded(1), *condition)
    assert cached.evaluations == pytest.approx(sum(rows) / N / 2)


def test_many_cached_steps_draw_from_the_joint_law():
    """With steps this short two positions hardly ever jump together."""
    network = TimelessNetwork(OneHot(exact_kernel(PROCESS).network))
    exact = BridgeKernel(network, PROCESS, PROCESS.token)
    sampler = CachedSampler.steps(exact, 200)
    y = sampler.sample(PROCESS.source((2000, 2), seeded()), seeded())
    assert sampler.evaluations < 3
    assert passes_chi_square(y[:, 0] * 3 + y[:, 1], LAW.log_prob(joint_states(3)).exp())


def test_a_network_that_sees_the_time_is_rejected():
    with pytest.raises(InputError, match="TimelessNetwork"):
        CachedSampler(BridgeKernel(kernel().network.network, PROCESS, PROCESS.token))
    with pytest.raises(InputError, match="no guidance"):
        CachedSampler(kernel(), guidance=2.0)
