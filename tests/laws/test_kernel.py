"""Laws of every kernel: laws in, laws out, and draws that follow them."""

import itertools

import pytest
import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import BoundaryKernel, BridgeKernel, UnconstrainedKernel
from discrete_meanflow.network import MLP, Transformer
from discrete_meanflow.objective import finite_difference, forward_mode
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.schedule import Linear
from discrete_meanflow.state import Continuous
from problems import kernels, seeded
from statistics_of_draws import passes_chi_square

N = 20_000
KERNELS = kernels()
DISCRETE = {k: v for k, v in KERNELS.items() if not isinstance(v.space, Continuous)}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
every_discrete_kernel = pytest.mark.parametrize("kernel", DISCRETE.values(), ids=DISCRETE)
R = torch.tensor([0.0, 0.0, 0.3, 0.9], dtype=torch.float64)
T = torch.tensor([1.0, 0.1, 0.8, 1.0], dtype=torch.float64)


@every_discrete_kernel
def test_columns_are_laws(kernel):
    K = kernel.matrix(R, T)
    assert K.shape == (4, 4, 4)
    assert (K.sum(-2) - 1).abs().max() < 1e-14
    assert K.min() >= 0


def some_states(kernel):
    """All symbols, or as many points."""
    if isinstance(kernel.space, Continuous):
        return torch.randn(4, 4, generator=seeded(), dtype=torch.float64)
    return torch.arange(4)


@every_kernel
def test_boundary(kernel):
    x = some_states(kernel)
    for time in torch.linspace(0, 1, 11, dtype=torch.float64):
        r = time.expand(4)
        gap = (kernel.probs(x, r, r) - kernel.space.point(x, torch.float64)).abs().max()
        if isinstance(kernel, BridgeKernel):
            assert gap < 1e-14
        elif isinstance(kernel, UnconstrainedKernel):
            assert gap > 0.1
        else:
            assert gap == 0


@every_kernel
def test_the_derivative_is_the_finite_difference(kernel):
    x = some_states(kernel)
    t = T.clamp(max=0.999)
    exact = forward_mode(lambda t: kernel.probs(x, R, t), t)
    assert (exact - finite_difference(lambda t: kernel.probs(x, R, t), t)).abs().max() < 1e-7
    assert isinstance(kernel.space, Continuous) or exact.sum(-1).abs().max() < 1e-12
    assert exact.abs().max() > 1e-2


@every_discrete_kernel
def test_one_draw_follows_the_law(kernel):
    x = torch.ones(N, dtype=torch.long)
    y = KernelSampler(kernel).sample(x, seeded())
    assert passes_chi_square(y, kernel.matrix(0.0, 1.0)[:, 1].detach())


@every_discrete_kernel
def test_steps_compose_the_kernel(kernel):
    grid = [0.1, 0.4, 0.5, 0.9]
    y = KernelSampler(kernel, grid).sample(torch.zeros(N, dtype=torch.long), seeded())
    law = torch.eye(4, dtype=torch.float64)[:, 0]
    for r, t in itertools.pairwise(grid):
        law = kernel.matrix(r, t).detach() @ law
    assert passes_chi_square(y, law)


def sequence_kernel(vocabulary=2, length=3):
    with torch.random.fork_rng():
        torch.manual_seed(2)
        network = Transformer(vocabulary + 1, length, 16, 2, 2, 16, 8)
        for p in network.parameters():
            p.data.mul_(2)
    return BoundaryKernel(network, vocabulary + 1, Linear(), mask=vocabulary).double()


def sequences(kernel, grid, start):
    """The exact law over V^D of a run along the grid, by enumeration."""
    n, D = kernel.states, len(start)
    law = {tuple(start): 1.0}
    for r, t in itertools.pairwise(grid):
        after = dict.fromkeys(itertools.product(range(n), repeat=D), 0.0)
        for x, p in law.items():
            if p == 0:
                continue
            times = (torch.full((1, 1), s, dtype=torch.float64) for s in (r, t))
            factors = kernel.probs(torch.tensor([x]), *times)[0].detach()
            for y in after:
                after[y] += p * float(factors[range(D), y].prod())
        law = after
    return torch.tensor(list(law.values()), dtype=torch.float64)


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_sequences_are_drawn_position_by_position_given_all(steps):
    kernel, D = sequence_kernel(), 3
    sampler = KernelSampler.steps(kernel, steps)
    y = sampler.sample(torch.full((N, D), 2), seeded())
    code = (y * torch.tensor([9, 3, 1])).sum(-1)
    assert passes_chi_square(code, sequences(kernel, sampler.grid, [2] * D))


def test_observed_positions_stay_and_the_others_follow_them():
    kernel = sequence_kernel()
    tokens = (torch.arange(N) % 2)[:, None].expand(N, 3)
    observed = (torch.arange(3) == 0).expand(N, 3)
    y = KernelSampler(kernel).sample(torch.full((N, 3), 2), seeded(), tokens, observed)
    assert torch.equal(y[:, 0], tokens[:, 0])
    x = torch.tensor([[0, 2, 2], [1, 2, 2]])
    times = torch.zeros(2, 3, dtype=torch.float64)
    times[:, 0] = 1
    laws = kernel.probs(x, times, torch.ones_like(times)).detach()
    for first in (0, 1):
        assert passes_chi_square(y[tokens[:, 0] == first, 1], laws[first, 1])


class Concatenating(MLP):
    """A network that does not broadcast its times."""

    def forward(self, x, r, t):
        return self.layers(torch.cat([x, self.embed(r), self.embed(t)], -1))


def test_any_network_can_be_sampled_from():
    kernel = BoundaryKernel(Concatenating(4, 16, 3), 4, Linear())
    assert KernelSampler.steps(kernel, 2).sample(torch.zeros(7, dtype=torch.long), seeded()).shape


def test_start_states_the_kernel_does_not_have_are_rejected():
    sampler = KernelSampler(sequence_kernel())
    for x, message in (
        (torch.full((5, 3), 3), r"must lie in 0 .. 2, got 3"),
        (torch.full((5, 2), 2), "needs sequences of length 3"),
        (torch.full((5, 1), 2), "needs sequences of length 3"),
    ):
        with pytest.raises(InputError, match=message):
            sampler.sample(x, seeded())


def test_an_observed_position_does_not_move_and_is_seen():
    """A position with r = t = 1 stays, its kernel has zero slope, and others depend on it."""
    kernel = sequence_kernel()
    x = torch.tensor([[2, 2, 2], [0, 2, 2]])
    r, t = torch.zeros(2, 3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64)
    r[:, 0] = 1
    K = kernel.probs(x, r, t)
    assert torch.equal(K[:, 0], torch.eye(3, dtype=torch.float64)[x[:, 0]])
    slope = forward_mode(lambda t: kernel.probs(x, r, t), t)
    assert slope[:, 0].abs().max() == 0
    assert slope[0, 1:].abs().max() > 1e-3
    assert (K[0, 1:] - K[1, 1:]).abs().max() > 1e-3


def test_a_large_alphabet_keeps_its_tail():
    """At alpha = 1/1024 and 2,000 states, rare states must stay as likely as they are."""
    states, draws = 2_000, 100_000
    kernel = BoundaryKernel(MLP(states, 4, 2), states, Linear())
    x, logits = torch.zeros(1000, dtype=torch.long), torch.zeros(1000, states)
    r, t = torch.zeros(1000), torch.full((1000,), 1 / 1024)
    g = seeded()
    moved = torch.cat([kernel.transport(x, logits, r, t, g) for _ in range(draws // 1000)])
    fraction = (moved > 0).double().mean().item()
    assert abs(fraction - 1 / 1024) < 5 * (1 / 1024 / moved.numel()) ** 0.5
    halves = (moved[moved > 0] > states // 2).double().mean().item()
    assert 0.2 < halves < 0.8


def test_k_steps_are_a_grid():
    assert KernelSampler.steps(KERNELS["unconstrained"], 4).grid == [0, 0.25, 0.5, 0.75, 1]


@pytest.mark.parametrize(
    ("grid", "message"),
    [([0.5], "two times"), ([0.0, 1.2], r"\[0, 1\]"), ([0.0, 0.6, 0.4], "increase")],
)
def test_a_bad_grid_is_rejected(grid, message):
    with pytest.raises(InputError, match=message):
        KernelSampler(KERNELS["unconstrained"], grid)


def test_bad_start_states_are_rejected():
    sampler = KernelSampler(KERNELS["unconstrained"])
    for x in (torch.tensor([-1]), torch.tensor([0.5])):
        with pytest.raises(InputError, match="start states"):
            sampler.sample(x, seeded())


def test_zero_steps_are_rejected():
    with pytest.raises(InputError, match="at least one step"):
        KernelSampler.steps(KERNELS["unconstrained"], 0)


def test_bad_networks_are_rejected():
    with pytest.raises(InputError, match="2 states"):
        UnconstrainedKernel(MLP(1), 1)
    with pytest.raises(InputError, match="even"):
        MLP(3, time_width=5)
    with pytest.raises(InputError, match="layer"):
        MLP(3, layers=0)


def test_bad_times_are_rejected():
    with pytest.raises(InputError, match=r"r = 0.5 > t = 0.2"):
        KERNELS["unconstrained"].matrix(0.5, 0.2)


def test_the_papers_network():
    network = MLP(10)
    assert network.layers[0].in_features == 74
    assert [type(layer).__name__ for layer in network.layers].count("Linear") == 4


@every_kernel
def test_a_network_of_other_sizes_is_rejected(kernel):
    x, time = some_states(kernel), torch.zeros(4, dtype=torch.float64)
    network, kernel.network = kernel.network, MLP(5, 8, 2).double()
    try:
        with pytest.raises(InputError, match="needs points of 5 states"):
            kernel(x, time, time)
    finally:
        kernel.network = network


@every_kernel
def test_states_of_another_space_are_rejected(kernel):
    wrong = torch.arange(4) if isinstance(kernel.space, Continuous) else torch.randn(4, 4)
    with pytest.raises(InputError, match="start"):
        KernelSampler(kernel).sample(wrong, seeded())


def test_a_continuous_step_is_the_law_itself():
    kernel, x = KERNELS["flow map"], torch.randn(7, 4, generator=seeded(), dtype=torch.float64)
    r, t = (torch.full((7,), s, dtype=torch.float64) for s in (0.2, 0.7))
    logits = kernel(x, r, t)
    assert torch.equal(kernel.transport(x, logits, r, t, seeded()), kernel.law(x, logits, r, t))


def test_one_step_is_one_forward_pass():
    for kernel in KERNELS.values():
        calls = []
        hook = kernel.network.register_forward_hook(lambda *args, calls=calls: calls.append(1))
        KernelSampler(kernel).sample(some_states(kernel), seeded())
        hook.remove()
        assert len(calls) == 1
