"""Laws of the autoregressive model: exact likelihood, exact samples, and a cache that is exact."""

import copy
import functools
import itertools

import pytest
import torch
from torch import nn

from discrete_meanflow.data import BigramChain
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import AutoregressiveKernel, BoundaryKernel
from discrete_meanflow.network import MLP, CausalTransformer
from discrete_meanflow.objective import NextToken
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import Masking
from discrete_meanflow.sampler import AutoregressiveSampler, top_p
from discrete_meanflow.schedule import Linear
from discrete_meanflow.times import FromSource, TimePair
from discrete_meanflow.training import Problem, Recipe, train_kernel
from problems import seeded
from statistics_of_draws import passes_chi_square

V, D = 3, 4
LAW, PROCESS = BigramChain.dirichlet(V, D, 0.5, seed=1), Masking(V)
CLEAN = torch.tensor(list(itertools.product(range(V), repeat=D)))
PLACES = torch.tensor([V**d for d in reversed(range(D))])


def random_kernel():
    network = CausalTransformer(V + 1, D, 16, 2, 2)
    for i, p in enumerate(network.parameters()):
        nn.init.normal_(p, std=0.5, generator=seeded(i))
    return AutoregressiveKernel(network, V + 1, PROCESS.token).double()


KERNEL = random_kernel()


class ExactConditionals(nn.Module):
    """``log p(x_d | x_{d-1})`` of the bigram, plus theta: a stand-in for the network."""

    length = D
    step = cache = None

    def __init__(self, theta=0.0):
        super().__init__()
        given = torch.stack([LAW.initial, *LAW.rows])
        self.log_p = nn.functional.pad(given, (0, 1), value=1e-9).log()
        self.theta = nn.Parameter(torch.zeros(D, V + 1, dtype=torch.float64))
        self.theta.data[0, 0] = theta

    def forward(self, x, r, t):
        before = nn.functional.pad(x[..., :-1, :].argmax(-1) + 1, (1, 0))
        return self.log_p[before] + self.theta


def test_every_position_sees_those_before_it_and_no_others():
    network, x = KERNEL.network, torch.randn(5, D, V + 1, dtype=torch.float64, generator=seeded())
    time = torch.zeros(5, 1, dtype=torch.float64)
    for d in range(D):
        other = x.clone()
        other[:, d] += 1
        change = (network(other, time, time) - network(x, time, time)).abs().amax((0, -1))
        assert bool((change[: d + 1] == 0).all())
        assert bool((change[d + 1 :] > 1e-4).all())


def test_the_likelihood_sums_to_one():
    assert KERNEL.log_prob(CLEAN).exp().sum().item() == pytest.approx(1)
    with_mask = torch.cat([CLEAN, torch.full((1, D), V)])
    assert KERNEL.log_prob(with_mask)[-1] == -torch.inf


def expected(objective, kernel):
    """``E[objective]`` over all sequences, as one loss."""
    time = torch.zeros(len(CLEAN), dtype=torch.float64)
    path = PROCESS.path(CLEAN, TimePair(time, time + 0.5), seeded())
    path = path._replace(r=path.r.double(), t=path.t.double())
    each = [objective(kernel, type(path)(*(a[i : i + 1] for a in path))) for i in range(len(CLEAN))]
    return (torch.stack(each) * LAW.log_prob(CLEAN).exp()).sum()


def test_the_exact_conditionals_are_stationary_and_the_loss_is_the_entropy():
    p = LAW.log_prob(CLEAN)
    entropy = -(p.exp() * p).sum()
    for theta in (0.0, 0.3):
        kernel = AutoregressiveKernel(ExactConditionals(theta), V + 1, PROCESS.token)
        loss = expected(NextToken(), kernel)
        (gradient,) = torch.autograd.grad(loss, kernel.network.theta)
        assert (gradient.abs().max() < 1e-12) == (theta == 0)
        nll = -(p.exp() * kernel.log_prob(CLEAN)).sum()
        assert (D * loss).item() == pytest.approx(nll.item())
        assert nll >= entropy - 1e-12
        assert (abs(nll - entropy) < 1e-12) == (theta == 0)


@torch.no_grad()
def test_the_cache_changes_nothing():
    x = CLEAN[torch.randint(len(CLEAN), (2, 7), generator=seeded())]
    points = nn.functional.one_hot(x, V + 1).double()
    time = torch.zeros(2, 7, 1, dtype=torch.float64)
    whole, cache = KERNEL(x, time, time), KERNEL.cache(x.shape[:-1])
    for i in range(D):
        previous = points[..., i - 1, :] if i else torch.zeros_like(points[..., 0, :])
        step = KERNEL.step(previous, torch.tensor([i]), cache)
        assert (step - whole[..., i, :]).abs().max() < 1e-12


@torch.no_grad()
def test_a_copy_steps_with_its_own_weights():
    kernel = copy.deepcopy(KERNEL)
    for p in kernel.parameters():
        p.zero_()
    start, first = torch.zeros(2, V + 1, dtype=torch.float64), torch.tensor([0])
    assert bool((kernel.step(start, first, kernel.cache(torch.Size([2]))) == 0).all())
    assert KERNEL.step(start, first, KERNEL.cache(torch.Size([2]))).abs().max() > 0.1


@pytest.mark.parametrize("bf16", [False, True])
def test_samples_follow_the_model_s_law(bf16):
    kernel = random_kernel().float()
    x = PROCESS.source((20_000, D), seeded())
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        y = AutoregressiveSampler(kernel).sample(x, seeded())
    law = KERNEL.log_prob(CLEAN).exp().detach()
    if bf16:
        assert (torch.bincount(y @ PLACES, minlength=len(law)) / len(y) - law).abs().sum() < 0.1
    else:
        assert passes_chi_square(y @ PLACES, law)


def test_observed_positions_condition_the_later_ones():
    """Given x_1 = 2 the others follow the chain rule; x_0 keeps its own law."""
    x, tokens = PROCESS.source((20_000, D), seeded()), torch.full((20_000, D), 2)
    observed = torch.tensor([[False, True, False, False]]).expand(20_000, D)
    y = AutoregressiveSampler(KERNEL).sample(x, seeded(), tokens, observed)
    time = torch.zeros(len(CLEAN), 1, dtype=torch.float64)
    log_q = KERNEL.log_q(CLEAN, KERNEL(CLEAN, time, time)).gather(-1, CLEAN[..., None])[..., 0]
    law = log_q[:, [0, 2, 3]].sum(-1).exp() * (CLEAN[:, 1] == 2)
    assert bool((y[:, 1] == 2).all())
    assert passes_chi_square(y @ PLACES, law.detach())


def test_a_sample_evaluates_each_position_once(monkeypatch):
    sampler, positions = AutoregressiveSampler(KERNEL), []

    def count(previous, i, cache):
        positions.append((previous.shape, int(i)))
        return KERNEL.step(previous, i, cache)

    monkeypatch.setattr(sampler, "next", count)
    states = list(sampler.trajectory(PROCESS.source((5, D), seeded()), seeded()))
    assert positions == [(torch.Size([5, V + 1]), i) for i in range(D)]
    assert sampler.step_count == len(states) == D
    for i, state in enumerate(states):
        assert bool((state[:, : i + 1] < V).all())
        assert bool((state[:, i + 1 :] == V).all())


def test_logit_processors_act_and_the_mask_is_never_drawn():
    x = PROCESS.source((500, D), seeded())
    greedy = [AutoregressiveSampler(KERNEL, [top_p(1e-6)]).sample(x, seeded(s)) for s in (0, 1)]
    assert torch.equal(*greedy)
    assert int(greedy[0].max()) < V
    assert not torch.equal(*(AutoregressiveSampler(KERNEL).sample(x, seeded(s)) for s in (0, 1)))


def test_the_compiled_sampler_is_the_sampler(monkeypatch):
    """The step is one graph, whatever makes code of it."""
    graph = functools.partial(torch.compile, backend="eager", fullgraph=True)
    monkeypatch.setattr(torch, "compile", lambda step, dynamic: graph(step))
    x = PROCESS.source((50, D), seeded())
    plain, fast = (AutoregressiveSampler(KERNEL, compiled=c).sample(x, seeded()) for c in (0, 1))
    assert torch.equal(plain, fast)


@pytest.mark.parametrize("conditioning", [0.0, 0.5])
def test_it_learns_the_law(conditioning):
    problem = Problem(
        DataPaths(PROCESS, LAW, FromSource(), conditioning),
        lambda: AutoregressiveKernel(CausalTransformer(V + 1, D, 32, 1, 2), V + 1, V),
        NextToken(),
    )
    kernel = train_kernel(problem, Recipe(250, learning_rate=5e-3)).double()
    p = LAW.log_prob(CLEAN)
    divergence = (p.exp() * (p - kernel.log_prob(CLEAN))).sum()
    assert 0 <= divergence < 0.02


def test_observed_positions_add_nothing():
    g = seeded()
    x1, time = LAW.sample((32,), g), torch.zeros(32, dtype=torch.float64)
    observed = (torch.arange(D) < 2).expand(32, D)
    path = PROCESS.path(x1, TimePair(time, time + 0.5), g, 0, observed)
    path = path._replace(r=path.r.double(), t=path.t.double())
    log_q = KERNEL.log_q(x1, KERNEL(x1, path.r, path.t))
    nll = -log_q.gather(-1, x1[..., None])[:, 2:].sum() / (32 * D)
    assert NextToken()(KERNEL, path).item() == pytest.approx(nll.item(), rel=1e-6)


def test_the_kernel_moves_positions_whose_time_moves():
    x = CLEAN[:10]
    r, t = torch.zeros(10, D, dtype=torch.float64), torch.zeros(10, D, dtype=torch.float64)
    t[:, 2] = 1
    K = KERNEL.probs(x, r, t)
    assert (K.sum(-1) - 1).abs().max() < 1e-12
    assert torch.equal(K.argmax(-1)[:, [0, 1, 3]], x[:, [0, 1, 3]])
    y = KERNEL.transport(x, KERNEL(x, r, t), r, t, seeded())
    assert torch.equal(y[:, [0, 1, 3]], x[:, [0, 1, 3]])


def test_bad_input_is_rejected():
    other = BoundaryKernel(MLP(V + 1, 8, 2), V + 1, Linear(), V)
    with pytest.raises(InputError, match="needs an AutoregressiveKernel, not BoundaryKernel"):
        AutoregressiveSampler(other)
    time = torch.zeros(2, dtype=torch.float64)
    path = PROCESS.path(CLEAN[:2], TimePair(time, time + 0.5), seeded())
    with pytest.raises(InputError, match="needs an AutoregressiveKernel"):
        NextToken()(other, path)
    tokens, observed = torch.full((8, D), V), torch.ones(8, D, dtype=torch.bool)
    with pytest.raises(InputError, match="must not be the mask"):
        AutoregressiveSampler(KERNEL).sample(
            PROCESS.source((8, D), seeded()), seeded(), tokens, observed
        )
