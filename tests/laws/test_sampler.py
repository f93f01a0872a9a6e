"""Laws of every sampler: observed positions, guidance, ODE order, logit processors."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from discrete_meanflow.ctmc import ring
from discrete_meanflow.data import BigramChain
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import (
    BoundaryKernel,
    BridgeKernel,
    EulerKernel,
    ExactPosterior,
    FlowMapKernel,
    MaskScoreKernel,
    Redraw,
    kernel_for,
)
from discrete_meanflow.network import MLP, DiT, FlatMLP
from discrete_meanflow.objective import Phases, PosteriorRegression, SemigroupLoss, Weighted
from discrete_meanflow.process import Masking, OneHotFlow, Structured, Uniform
from discrete_meanflow.sampler import (
    KernelSampler,
    ODESampler,
    RefiningSampler,
    UnmaskingSampler,
    chunk,
    forbid,
    generate,
    temperature,
    top_p,
)
from discrete_meanflow.schedule import Linear
from discrete_meanflow.training import Recipe, train_kernel
from laws.exact_flow import LAW, PROCESS, TWINS_PROCESS, ExactFlow, twins_problem
from problems import seeded


def exact(process):
    return ExactPosterior(LAW, process)


MASKING = Masking(3)
FACTORISED = BoundaryKernel(ExactPosterior(LAW, MASKING), 4, Linear(), MASKING.token)
FLOW_MAP = FlowMapKernel(ExactPosterior(LAW, PROCESS), 3)
RING = Structured(ring(3))
SAMPLERS = {
    "kernel, discrete": (KernelSampler.steps(FACTORISED, 3), MASKING),
    "kernel, uniform": (
        KernelSampler.steps(kernel_for(Uniform(3), exact(Uniform(3))), 2),
        Uniform(3),
    ),
    "kernel, bridge": (KernelSampler.steps(BridgeKernel(exact(RING), RING), 2), RING),
    "Euler, discrete": (
        KernelSampler.steps(EulerKernel(BridgeKernel(exact(MASKING), MASKING, 3), Redraw(1.0)), 3),
        MASKING,
    ),
    "scores": (KernelSampler.steps(MaskScoreKernel(exact(MASKING), MASKING), 3), MASKING),
    "kernel, continuous": (KernelSampler.steps(FLOW_MAP, 3), PROCESS),
    "ODE": (ODESampler(FLOW_MAP, 3), PROCESS),
    "ODE, Euler": (ODESampler(FLOW_MAP, 3, order=1), PROCESS),
    "refining": (RefiningSampler(FLOW_MAP, 3), PROCESS),
    "restarts": (KernelSampler.restarts(FLOW_MAP, 3), PROCESS),
    "unmasking": (UnmaskingSampler(FACTORISED, [[0], [1]]), MASKING),
}
every_sampler = pytest.mark.parametrize(("sampler", "process"), SAMPLERS.values(), ids=SAMPLERS)


@every_sampler
def test_samples_are_symbols_of_the_last_state(sampler, process):
    x = process.source((50, 2), seeded())
    states = list(sampler.trajectory(x, seeded()))
    y = sampler.sample(x, seeded())
    assert len(states) == sampler.step_count
    assert y.shape == (50, 2)
    assert 0 <= int(y.min()) <= int(y.max()) < 3
    assert torch.equal(y, sampler.kernel.decode(states[-1]))


@every_sampler
def test_observed_positions_keep_their_tokens(sampler, process):
    x, tokens = process.source((200, 2), seeded()), torch.ones(200, 2, dtype=torch.long)
    observed = torch.tensor([[True, False]]).expand(200, 2)
    for state in sampler.trajectory(x, seeded(), tokens, observed):
        assert torch.equal(state[observed], process.space.observe(x, tokens, observed)[observed])
    y = sampler.sample(x, seeded(), tokens, observed)
    assert bool((y[:, 0] == 1).all())


@every_sampler
def test_a_sampler_rejects_bad_conditions(sampler, process):
    x, tokens = process.source((8, 2), seeded()), torch.zeros(8, 2, dtype=torch.long)
    for arguments, message in (
        ((tokens, None), "give both"),
        ((tokens, torch.ones(8, 2)), "must be bool"),
        ((tokens, torch.ones(8, 1, dtype=torch.bool)), "must be bool"),
        ((tokens + 9, torch.ones(8, 2, dtype=torch.bool)), "must lie in"),
        ((tokens.float(), torch.ones(8, 2, dtype=torch.bool)), "must be integers"),
    ):
        with pytest.raises(InputError, match=message):
            sampler.sample(x, seeded(), *arguments)


@every_sampler
def test_a_step_is_one_forward_pass(sampler, process):
    calls = []
    network = sampler.kernel.network
    hook = network.register_forward_hook(lambda *arguments: calls.append(1))
    sampler.sample(process.source((4, 2), seeded()), seeded())
    hook.remove()
    assert len(calls) == sampler.step_count == sampler.evaluations


@pytest.mark.parametrize("name", ["kernel, discrete", "unmasking", "Euler, discrete", "scores"])
def test_the_mask_cannot_be_observed(name):
    sampler, process = SAMPLERS[name]
    tokens, observed = torch.full((8, 2), process.token), torch.ones(8, 2, dtype=torch.bool)
    with pytest.raises(InputError, match="must not be the mask"):
        sampler.sample(process.source((8, 2), seeded()), seeded(), tokens, observed)


def test_chunks_are_samples_of_the_whole(monkeypatch):
    monkeypatch.setattr(chunk, "chunk_size", lambda *sizes: 4)
    sampler, process = SAMPLERS["kernel, discrete"]
    tokens, observed = torch.tensor([1, 0]), torch.tensor([True, False])
    chunks = list(generate(sampler, process, (10, 2), seeded(), tokens, observed))
    assert [len(part) for part in chunks] == [4, 4, 2]
    assert all(bool((part[:, 0] == 1).all()) for part in chunks)
    assert torch.cat(list(generate(sampler, process, (10, 2), seeded()))).shape == (10, 2)


@pytest.fixture(scope="module")
def twins():
    """A kernel that has learned that all positions are equal."""
    flow_map = Weighted((1.0, PosteriorRegression()), (1.0, SemigroupLoss()))
    objective = Phases((0.4, PosteriorRegression()), (0.6, flow_map))
    problem = twins_problem(objective, conditioning=0.5)
    return train_kernel(problem, Recipe(700, learning_rate=3e-3, ema_decay=0.98), seed=0)


def test_one_step_draws_dependent_positions(twins):
    """All positions are equal in the data; independent draws would be in a quarter."""
    g = seeded()
    y = KernelSampler(twins).sample(TWINS_PROCESS.source((4000, 3), g), g)
    assert ((y[:, 0] == y[:, 1]) & (y[:, 1] == y[:, 2])).double().mean() > 0.9
    assert 0.4 < y.double().mean() < 0.6


def observed_one(n=4000):
    """Noise, tokens of one, and a mask that observes the middle position."""
    observed = (torch.arange(3) == 1).expand(n, 3)
    return TWINS_PROCESS.source((n, 3), seeded()), torch.ones(n, 3, dtype=torch.long), observed


@pytest.mark.parametrize("kind", [RefiningSampler, KernelSampler.restarts])
def test_further_evaluations_keep_positions_dependent(twins, kind):
    x = TWINS_PROCESS.source((4000, 3), seeded())
    one, three = (kind(twins, k).sample(x, seeded()).double() for k in (1, 3))
    equal = [((y == y[:, :1]).all(-1)).double().mean() for y in (one, three)]
    assert equal[1] > max(equal[0] - 0.01, 0.9)
    assert 0.4 < three.mean() < 0.6


@pytest.mark.parametrize(
    "made",
    [
        KernelSampler,
        lambda kernel: KernelSampler.steps(kernel, 4),
        lambda kernel: RefiningSampler(kernel, 2),
        lambda kernel: KernelSampler.restarts(kernel, 2),
    ],
    ids=["one step", "four steps", "refining", "restarts"],
)
def test_generated_positions_follow_observed_ones(twins, made):
    x, tokens, observed = observed_one()
    y = made(twins).sample(x, seeded(), tokens, observed)
    assert bool((y[:, 1] == 1).all())
    assert y.double().mean() > 0.85


def test_guidance_strengthens_the_condition(twins):
    x, tokens, observed = observed_one()
    fraction = [
        KernelSampler.steps(twins, 2, guidance=w)
        .sample(x, seeded(), tokens, observed)[:, 0].double().mean().item()
        for w in (0.0, 1.0, 2.0)
    ]  # fmt: skip
    assert 0.4 < fraction[0] < 0.6  # scale 0 ignores the condition
    assert fraction[0] + 0.2 < fraction[1] <= fraction[2]


def test_guidance_extrapolates_the_logits():
    """``free + w (conditional - free)``, with an untrained network."""
    network = DiT(3, 4, 32, 1, 2)
    for i, p in enumerate(network.parameters()):
        torch.nn.init.normal_(p, std=0.5, generator=torch.Generator().manual_seed(i))
    kernel, tokens = FlowMapKernel(network, 3), torch.ones(200, 4, dtype=torch.long)
    noise = PROCESS.source((200, 4), seeded())
    observed = (torch.arange(4) < 2).expand(200, 4)
    x = PROCESS.space.observe(noise, tokens, observed)
    zero, one = torch.zeros(200, 4), torch.ones(200, 4)
    with torch.no_grad():
        conditional = kernel(x, torch.where(observed, one, zero), one)
        free = kernel(noise, zero, one)
    samples = {
        w: KernelSampler(kernel, guidance=w).sample(noise, seeded(), tokens, observed)[:, 2:]
        for w in (0.0, 1.0, 3.0)
    }
    for w, y in samples.items():
        assert torch.equal(y, (free + w * (conditional - free)).argmax(-1)[:, 2:])
    assert not torch.equal(samples[1.0], samples[3.0])
    with pytest.raises(InputError, match="guidance needs observed positions"):
        KernelSampler(kernel, guidance=2.0).sample(noise, seeded())
    assert KernelSampler(kernel, guidance=2.0).evaluations == 2


@pytest.mark.parametrize("order", [1, 2])
def test_the_ode_solver_has_its_order(order):
    """The slope of the error against the number of steps, at the grid time next to 0.7."""
    start = PROCESS.source((500, 2), seeded()).double()
    zero = torch.zeros(500, 1, dtype=torch.float64)

    def error(k):
        solver = ODESampler(FLOW_MAP, k, order=order)
        i = min(range(1, k), key=lambda i: abs(solver.grid[i] - 0.7))
        exact = ExactFlow().integrate(start, zero, zero + solver.grid[i])
        return (list(solver.trajectory(start, seeded()))[i - 1] - exact).abs().mean().item()

    steps = [8, 16, 32, 64]
    slope = np.polyfit(np.log(steps), np.log([error(k) for k in steps]), 1)[0]
    assert abs(slope + order) < 0.35


def test_sixteen_ode_steps_are_better_than_sixty_four_euler_steps():
    law, process = BigramChain.dirichlet(8, 16, 0.1, seed=0), OneHotFlow(8)
    kernel = FlowMapKernel(ExactPosterior(law, process), 8)
    start = process.source((1500, 16), seeded()).double()
    truth, ours, euler = (
        sampler.sample(start, seeded())
        for sampler in (
            ODESampler(kernel, 100),
            ODESampler(kernel, 16),
            KernelSampler.steps(kernel, 64),
        )
    )
    errors = [(y != truth).double().mean().item() for y in (ours, euler)]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("states", [2, 27, 362, 10_000])
def test_the_ode_grid_starts_with_short_steps(states):
    """The decoding clock alone would step to 0.1 and more, and to 0.69 over 10,000 symbols."""
    grid = ODESampler(FlowMapKernel(torch.nn.Identity(), states), 16).grid
    assert grid[1] < 0.26
    assert all(r < t for r, t in itertools.pairwise(grid))


def test_the_ode_solver_evaluates_only_the_diagonal():
    calls = []

    class Recording(nn.Module):
        def forward(self, x, r, t):
            calls.append((r, t))
            return x

    ODESampler(FlowMapKernel(Recording(), 3), 4).sample(PROCESS.source((5, 2), seeded()), seeded())
    assert len(calls) == 4
    assert all(torch.equal(r, t) for r, t in calls)


def test_the_ode_solver_ends_in_a_law():
    start = PROCESS.source((50, 2), seeded())
    states = list(ODESampler(FLOW_MAP, 5).trajectory(start, seeded()))
    assert torch.allclose(states[-1].sum(-1), torch.ones(50, 2, dtype=torch.float64))
    assert bool((states[-1] >= 0).all())
    [once] = ODESampler(FLOW_MAP, 1).trajectory(start, seeded())
    zero = torch.zeros(50, 1, dtype=torch.float64)
    assert torch.allclose(once, FLOW_MAP(start, zero, zero).exp().to(once))


def test_temperature_and_top_p(twins):
    x = TWINS_PROCESS.source((4000, 3), seeded())

    def agreement(sampler):
        return (sampler.sample(x, seeded(1)) == sampler.sample(x, seeded(2))).double().mean()

    cold, hot = (
        KernelSampler(twins, logit_processors=[temperature(value)]) for value in (0.01, 100.0)
    )
    assert agreement(cold) > 0.99
    assert agreement(hot) < 0.6
    assert agreement(KernelSampler(twins)) == 1  # all randomness is in the start
    assert 0.6 < agreement(KernelSampler(twins, logit_processors=[temperature(1.0)])) < 1
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    kept = top_p(0.6)(logits)
    assert torch.equal(kept.softmax(-1) > 0, torch.tensor([[True, True, False, False]]))
    assert torch.equal(top_p(1.0)(logits), logits)
    assert forbid(2)(logits).softmax(-1)[0, 2] == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: temperature(0.0), r"must lie in \[0.001, 100\]"),
        (lambda: top_p(0.0), "must lie in"),
        (lambda: forbid(4)(torch.zeros(1, 4)), "symbol 4 lies outside"),
        (lambda: ODESampler(FLOW_MAP, 0), "at least one step"),
        (lambda: ODESampler(FLOW_MAP, 2, order=3), "order must be 1 or 2"),
        (lambda: ODESampler(BoundaryKernel(MLP(3), 3, Linear()), 2), "discrete states"),
        (
            lambda: KernelSampler(FLOW_MAP).sample(torch.full((4, 2, 3), torch.nan), seeded()),
            "NaN",
        ),
        (
            lambda: KernelSampler(FLOW_MAP).sample(torch.zeros(4, 2, dtype=torch.long), seeded()),
            "start from points",
        ),
        (
            lambda: KernelSampler(FlowMapKernel(FlatMLP(3, 2, 16, 1), 3)).sample(
                torch.zeros(4, 5, 3), seeded()
            ),
            "length 2",
        ),
    ],
)
def test_bad_input_is_rejected(call, message):
    with pytest.raises(InputError, match=message):
        call()
