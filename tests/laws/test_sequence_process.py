"""Laws of every process on sequences, discrete and continuous, by enumeration where possible."""

import itertools

import pytest
import torch

from discrete_meanflow.ctmc import chains
from discrete_meanflow.ctmc.generator import ConstantGenerator
from discrete_meanflow.data import BigramChain, TokenArray
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import BridgeKernel, ExactPosterior
from discrete_meanflow.objective import forward_mode
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import (
    Absorbing,
    FixedPositions,
    Masking,
    OneHotFlow,
    RandomPositions,
    Structured,
    Uniform,
)
from discrete_meanflow.simplex import delta
from discrete_meanflow.state import Continuous
from discrete_meanflow.times import TimePair, UniformGap
from problems import masking_noise, seeded, sequence_processes, uniform_noise
from statistics_of_draws import passes_chi_square

PROCESSES = sequence_processes()
DISCRETE = {k: p for k, p in PROCESSES.items() if not isinstance(p.space, Continuous)}
every_process = pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES)
every_discrete_process = pytest.mark.parametrize("process", DISCRETE.values(), ids=DISCRETE)
DATA = TokenArray(torch.tensor([[0, 1], [2, 2], [1, 0], [0, 0], [1, 2]]), 3)
N = 20_000


def times(*values):
    return [torch.tensor(v, dtype=torch.float64) for v in values]


def starts(process, x1, r):
    """States that x_r can be in given x1: all of them, or a few points of a continuous space."""
    x = process.corrupt(torch.full((N,), x1), r.expand(N), seeded())
    if isinstance(process.space, Continuous):
        return x[:20].double()
    return torch.tensor(sorted(set(x.tolist())))


def push(process, x, x1, r, t):
    """One step given x1 from each state: laws ``(m, n)``, or the points themselves."""
    m = len(x)
    q = delta(torch.full((m,), x1), process.states, torch.float64)
    return process.bridge(x, q, r.expand(m), t.expand(m))


def push_again(process, pushed, x1, s, t):
    """A second step from laws (summed over states) or points."""
    if isinstance(process.space, Continuous):
        return push(process, pushed, x1, s, t)
    return pushed @ push(process, torch.arange(process.states), x1, s, t)


def flow(process, pushed, x1, t):
    """The time derivative of laws by the conditional generator, or the velocity of points."""
    if isinstance(process.space, Continuous):
        return process.rate(pushed, t.expand(len(pushed)), torch.full((len(pushed),), x1))
    return pushed @ rate_matrix(process, x1, t).T


def rate_matrix(process, x1, t):
    n = process.states
    return process.rate(torch.arange(n), t.expand(n), torch.full((n,), x1)).T


@every_discrete_process
def test_conditional_generators_are_generators(process):
    for x1, time in itertools.product(range(process.vocabulary), (0.2, 0.5, 0.9)):
        u = rate_matrix(process, x1, *times(time))
        assert u.sum(0).abs().max() < 1e-10
        assert (u - torch.diag(u.diagonal())).min() >= 0


@every_discrete_process
@pytest.mark.parametrize("time", [0.0, 0.3, 0.9])
def test_corrupted_tokens_follow_their_likelihood(process, time):
    (r,) = times(time)
    every = process.likelihood(torch.arange(process.states), r.expand(process.states))
    assert (every.sum(0) - 1).abs().max() < 1e-12
    for x1 in range(process.vocabulary):
        x = process.corrupt(torch.full((N,), x1), r.expand(N), seeded())
        assert passes_chi_square(x, every[:, x1])


@every_process
def test_corruption_at_time_one_is_the_data(process):
    x1 = DATA.sample((50,), seeded())
    x = process.corrupt(x1, torch.ones(50, 1, dtype=torch.float64), seeded())
    noise = process.source((50, 2), seeded())
    assert torch.equal(x, process.space.observe(noise, x1, torch.ones(50, 2, dtype=torch.bool)))


@every_process
def test_bridges_are_laws_and_hold_the_boundary(process):
    r, t = times(0.3, 0.8)
    for x1 in range(process.vocabulary):
        x = starts(process, x1, r)
        here = process.space.point(x, torch.float64)
        assert (push(process, x, x1, r, r) - here).abs().max() < 1e-12
        law = push(process, x, x1, r, t)
        mass = here.sum(-1) * 0.2 / 0.7 + 0.5 / 0.7 if x.is_floating_point() else 1.0
        assert (law.sum(-1) - mass).abs().max() < 1e-6
        assert x.is_floating_point() or law.min() >= 0


@every_process
def test_a_position_with_r_and_t_at_one_stays(process):
    (one,) = times(1.0)
    x = starts(process, 0, torch.tensor(0.5))
    assert torch.equal(push(process, x, 0, one, one), process.space.point(x, torch.float64))


@every_process
def test_bridges_end_at_the_clean_token(process):
    r, one = times(0.3, 1.0)
    for x1 in range(process.vocabulary):
        law = push(process, starts(process, x1, r), x1, r, one)
        assert (law[:, x1] - 1).abs().max() < 1e-12


@every_process
def test_bridges_compose(process):
    """Chapman-Kolmogorov given x1."""
    r, s, t = times(0.2, 0.5, 0.9)
    for x1 in range(process.vocabulary):
        x = starts(process, x1, r)
        two = push_again(process, push(process, x, x1, r, s), x1, s, t)
        assert (two - push(process, x, x1, r, t)).abs().max() < 1e-10


@every_process
@pytest.mark.parametrize(("r", "t"), [(0.3, 0.7), (0.3, 0.3), (0.3, 0.999)])
def test_bridges_solve_the_forward_equation(process, r, t):
    """``d/dt K_{r,t} = u_t K_{r,t}`` given x1, on the diagonal and close to t = 1 too."""
    r, t = times(r, t)
    for x1 in range(process.vocabulary):
        x = starts(process, x1, r)
        slope = forward_mode(lambda t, x1=x1, x=x, r=r: push(process, x, x1, r, t), t)
        there = push(process, x, x1, r, t)
        assert (slope - flow(process, there, x1, t)).abs().max() < 1e-8


@every_process
def test_the_derivative_of_a_bridge_is_its_finite_difference(process):
    r, t = times(0.3, 0.7)
    h = 1e-5
    for x1 in range(process.vocabulary):
        x = starts(process, x1, r)
        ahead, behind = (push(process, x, x1, r, t + s) for s in (h, -h))
        there = push(process, x, x1, r, t)
        assert ((ahead - behind) / (2 * h) - flow(process, there, x1, t)).abs().max() < 1e-7


@every_discrete_process
def test_bridges_are_products_of_small_steps(process):
    """The dense chain of the conditional generator, stepped by its matrix exponential."""
    r, t = times(0.4, 0.6)
    for x1 in range(process.vocabulary):
        x, steps = starts(process, x1, r), 400
        K = torch.eye(process.states, dtype=torch.float64)
        for i in range(steps):
            middle = r + (t - r) * (i + 0.5) / steps
            K = torch.linalg.matrix_exp(rate_matrix(process, x1, middle) * (t - r) / steps) @ K
        assert (K.T[x] - push(process, x, x1, r, t)).abs().max() < 1e-5


@every_discrete_process
def test_paths_are_corruption_then_bridge(process):
    """``x_r | x1`` and ``x_t | x_r, x1`` have their laws; r = 0 is the source."""
    r, t = 0.3, 0.8
    pairs = TimePair(*(torch.full((N,), s, dtype=torch.float64) for s in (r, t)))
    path = process.path(DATA.sample((N,), seeded(1)), pairs, seeded(1), draws=2)
    assert path.x.shape == path.x1.shape == (N, DATA.length)
    assert path.y.shape == (N, DATA.length, 2)
    first = process.corrupt(path.x1, torch.zeros(N, 1, dtype=torch.float64), seeded(2))
    start = source_law(process)
    assert passes_chi_square(first.flatten(), start)
    assert passes_chi_square(process.source((N,), seeded(3)), start)
    every = torch.arange(process.states)
    for x1 in range(process.vocabulary):
        # One step from the source: the law of x_r is the bridge from 0, averaged over it.
        p_r = start @ push(process, every, x1, *times(1e-12, r))
        here = path.x1 == x1
        frequencies = torch.bincount(path.x[here], minlength=process.states) / here.sum()
        assert (frequencies - p_r).abs().max() < 0.02
        law = push(process, every, x1, *times(r, t))
        for x in starts(process, x1, torch.tensor(r)).tolist():
            assert passes_chi_square(path.y[here & (path.x == x)].flatten(), law[x])


def test_continuous_paths_are_lines_from_noise_to_data():
    pairs = TimePair(*(torch.full((5000,), s, dtype=torch.float64) for s in (0.3, 0.8)))
    path = OneHotFlow(3).path(DATA.sample((5000,), seeded()), pairs, seeded(1), draws=2)
    assert path.y.shape == (5000, 2, 2, 3)
    e = delta(path.x1, 3, torch.float32)
    z = (path.x - 0.3 * e) / 0.7
    assert abs(z.mean().item()) < 0.03
    assert abs(z.std().item() - 1) < 0.03
    assert (path.y[..., 0, :] - (0.2 * z + 0.8 * e)).abs().max() < 1e-5


@every_process
def test_each_position_has_its_own_times(process):
    """A sequence with different times per position is what each position would do alone."""
    D, g = DATA.length, seeded(4)
    r = torch.rand(5, D, generator=g, dtype=torch.float64) * 0.5 + 0.1
    t = r + torch.rand(5, D, generator=g, dtype=torch.float64) * (1 - r)
    t[0, 0] = r[0, 0]
    x1 = DATA.sample((5,), g)
    x = process.corrupt(x1, r, g)
    q = torch.softmax(torch.randn(5, D, process.states, generator=g, dtype=torch.float64), -1)
    together = process.bridge(x, q, r, t)
    for b, d in itertools.product(range(5), range(D)):
        alone = process.bridge(*(part[b : b + 1, d : d + 1] for part in (x, q, r, t)))
        assert torch.allclose(alone[0, 0], together[b, d], atol=1e-12)
    here = process.space.point(x[0, 0], torch.float64).double()
    assert torch.allclose(together[0, 0], here, atol=1e-6)


@every_process
def test_observed_positions_hold_their_tokens(process):
    paths = DataPaths(process, DATA, UniformGap(0.02), conditioning=0.5)
    path = paths.sample((4000,), seeded())
    observed = path.r == 1
    assert bool((path.t[observed] == 1).all())
    assert bool((path.s[observed] == 1).all())
    assert 0.2 < observed.double().mean() < 0.3  # half of the sequences, half of their positions
    clean = process.space.observe(path.x, path.x1, torch.ones_like(observed))
    assert torch.equal(path.x[observed], clean[observed])
    assert not torch.equal(path.x[~observed], clean[~observed])


def test_the_union_of_masks_and_fixed_positions():
    first = FixedPositions([1], 0.5)
    masks = first.sample((4000,), 3, seeded())
    assert not bool(masks[:, [0, 2]].any())
    assert 0.45 < masks[:, 1].double().mean() < 0.55
    assert repr(RandomPositions(0.2)) == "RandomPositions(0.2)"


def test_masking_noise_is_masking():
    """Structured noise that only masks is the masking process, in bridge and generator."""
    plain, structured = Masking(3), Structured(masking_noise(3), 3)
    r, t = times(0.25, 0.7)
    for x1 in range(3):
        x = torch.tensor([x1, 3])
        assert (push(plain, x, x1, r, t) - push(structured, x, x1, r, t)).abs().max() < 1e-10
        rates = [rate_matrix(process, x1, t)[:, x] for process in (plain, structured)]
        assert (rates[0] - rates[1]).abs().max() < 1e-10


def test_uniform_noise_corrupts_as_the_uniform_process_does():
    structured = Structured(uniform_noise(3))
    r = torch.tensor(0.3, dtype=torch.float64)
    N_r = structured.noising(r, torch.ones_like(r))
    expected = 0.3 * torch.eye(3, dtype=torch.float64) + 0.7 / 3
    assert (N_r - expected).abs().max() < 1e-12


def joint_law(process, x_r, x1_law, r, t):
    """``P(x_t | x_r)`` by enumerating x1 in V^D."""
    joint = torch.zeros([process.states] * len(x_r), dtype=torch.float64)
    for x1, p in x1_law.items():
        factors = [
            push(process, torch.tensor([x]), token, r, t)[0]
            for x, token in zip(x_r, x1, strict=True)
        ]
        product = factors[0]
        for factor in factors[1:]:
            product = product[..., None] * factor
        joint += p * product
    return joint


def source_law(process):
    if isinstance(process, Structured):
        return process.stationary
    return process.source_law()


def posterior(process, x, r, prior):
    """``P(x1 | x_r = x)`` over V^D."""
    weight = {}
    zero = torch.full((), 1e-12, dtype=torch.float64)
    source, every = source_law(process), torch.arange(process.states)
    for x1, p in prior.items():
        for d, token in enumerate(x1):
            p = p * (source @ push(process, every, token, zero, r))[x[d]].item()
        weight[x1] = p
    total = sum(weight.values())
    return {x1: w / total for x1, w in weight.items()}


PRIOR = {(0, 0): 0.45, (1, 1): 0.3, (2, 0): 0.2, (1, 2): 0.05}  # a dependent law on pairs


@pytest.mark.parametrize("name", ["masking", "absorbing"])
def test_masking_and_absorbing_are_markov(name):
    """Given x_r alone: P(x1 | x_t, x_r) = P(x1 | x_t), so kernels compose jointly."""
    assert _markov_defect(PROCESSES[name]) < 1e-6


@pytest.mark.parametrize("noise", [uniform_noise(3), chains.ring(3), chains.birth_death(3)])
def test_structured_noise_is_markov(noise):
    assert _markov_defect(Structured(noise)) < 1e-8


def test_uniform_diffusion_is_markov():
    assert _markov_defect(PROCESSES["uniform diffusion"]) < 1e-8


def test_the_uniform_process_is_not_markov():
    assert _markov_defect(PROCESSES["uniform"]) > 0.01


def _markov_defect(process):
    """Largest gap between K_{r,t} and K_{s,t} K_{r,s} of the marginal process on V^2."""
    r, s, t = times(0.3, 0.5, 0.8)
    n, worst = process.states, 0.0
    states = list(itertools.product(range(n), repeat=2))
    at_s = {z: posterior(process, z, s, PRIOR) for z in states if _possible(process, z)}
    for x in states:
        if not _possible(process, x):
            continue
        here = posterior(process, x, r, PRIOR)
        direct = joint_law(process, x, here, r, t)
        middle = joint_law(process, x, here, r, s)
        composed = sum(
            middle[z] * joint_law(process, z, at_s[z], s, t) for z in at_s if middle[z] > 1e-14
        )
        worst = max(worst, (direct - composed).abs().max().item())
    return worst


def _possible(process, x):
    if not isinstance(process, Absorbing | Masking):
        return True
    return any(all(x[d] in (x1[d], process.token) for d in range(2)) for x1 in PRIOR)


def test_bad_noise_is_rejected():
    with pytest.raises(InputError, match="token must lie in the alphabet"):
        Absorbing(3, 3)
    with pytest.raises(InputError, match="2 states, the alphabet 3"):
        Structured(chains.two_state(), 3)
    with pytest.raises(InputError, match="one stationary law"):
        Structured(ConstantGenerator(torch.zeros(3, 3)))


def test_data_of_another_alphabet_are_rejected():
    with pytest.raises(InputError, match="the process has 4 symbols, the data 3"):
        DataPaths(Masking(4), DATA, UniformGap())


@pytest.mark.parametrize("process", [Masking(3), Uniform(3), Structured(chains.ring(3))])
def test_the_posterior_is_bayes_rule(process):
    law = BigramChain.dirichlet(3, 3, 1.0)
    clean = torch.tensor(list(itertools.product(range(3), repeat=3)))
    (r,) = times(0.4)
    x = process.corrupt(law.sample((20,), seeded()), r, seeded(1))
    seen = process.likelihood(x, r.expand(20, 1))  # (20, D, V)
    joint = law.log_prob(clean).exp() * seen[:, torch.arange(3), clean].prod(-1)
    by_hand = torch.einsum("bs,sdv->bdv", joint, delta(clean, 3, torch.float64))
    by_hand /= by_hand.sum(-1, keepdim=True)
    q = ExactPosterior(law, process)(x, r.expand(20, 1), r.expand(20, 1)).exp()
    assert (q[..., :3] - by_hand).abs().max() < 1e-12
    assert q[..., 3:].abs().sum() == 0


def test_a_posterior_needs_a_law():
    with pytest.raises(InputError, match="needs a Law, got TokenArray"):
        ExactPosterior(DATA, PROCESSES["masking"])


def test_evidence_of_probability_zero_is_rejected():
    """A cycle 0 -> 1 -> 2 -> 0 never shows 0 twice in a row; no mask remains at r = 1."""
    law = BigramChain(torch.full((3,), 1 / 3, dtype=torch.float64), torch.eye(3).roll(1, 1), 3)
    process = Masking(3)
    for x, r in (([[0, 0, 3]], 0.5), ([[0, 3, 3]], 0.0), ([[3, 3, 3]], 1.0)):
        with pytest.raises(InputError, match="probability zero"):
            ExactPosterior(law, process)(torch.tensor(x), *times([[r]], [[1.0]]))


def test_an_exact_kernel_is_on_the_device_of_its_process():
    process = Structured(chains.ring(3)).to("meta")
    kernel = BridgeKernel(ExactPosterior(BigramChain.dirichlet(3, 3).to("meta"), process), process)
    assert (kernel.device.type, kernel.dtype) == ("meta", torch.float64)
