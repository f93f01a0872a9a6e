"""Laws of every reference process on sequences, against dense chains and by enumeration."""

import itertools

import pytest
import torch

from discrete_meanflow.ctmc import chains
from discrete_meanflow.ctmc.generator import ConstantGenerator
from discrete_meanflow.data import BigramChain, IndependentCategorical
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import BridgeKernel
from discrete_meanflow.objective import forward_mode
from discrete_meanflow.process import Absorbing, ExactPosterior, Masking, Structured, Uniform
from discrete_meanflow.simplex import delta
from discrete_meanflow.times import TimePair
from dmf_reproduction.experiments.structured_noise import defect, exact_kernel
from problems import masking_noise, seeded, sequence_processes, uniform_noise
from statistics_of_draws import passes_chi_square

PROCESSES = sequence_processes()
every_process = pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES)
N = 20_000


def times(*values):
    return [torch.tensor(v, dtype=torch.float64) for v in values]


def bridge_matrix(process, x1, r, t):
    """``K[y, x]`` given x1, for all start states x: the process at one position."""
    n = process.states
    x = torch.arange(n)
    q = torch.zeros(n, n, dtype=torch.float64)
    q[:, x1] = 1
    return process.bridge(x, q, r.expand(n), t.expand(n)).T


def reachable(process, x1, r):
    """States that x_r can be in given x1; elsewhere a bridge means nothing."""
    x = process.corrupt(torch.full((N,), x1), r.expand(N), seeded())
    return sorted(set(x.tolist()))


def rate_matrix(process, x1, t):
    n = process.states
    return process.rate(torch.arange(n), t.expand(n), torch.full((n,), x1)).T


@every_process
def test_conditional_generators_are_generators(process):
    for x1, time in itertools.product(range(process.data.vocabulary), (0.2, 0.5, 0.9)):
        u = rate_matrix(process, x1, *times(time))
        assert u.sum(0).abs().max() < 1e-10
        assert (u - torch.diag(u.diagonal())).min() >= 0


@every_process
@pytest.mark.parametrize("time", [0.0, 0.3, 0.9])
def test_corrupted_tokens_follow_their_likelihood(process, time):
    (r,) = times(time)
    every = process.likelihood(torch.arange(process.states), r.expand(process.states))
    assert (every.sum(0) - 1).abs().max() < 1e-12
    for x1 in range(process.data.vocabulary):
        x = process.corrupt(torch.full((N,), x1), r.expand(N), seeded())
        assert passes_chi_square(x, every[:, x1])


@every_process
def test_bridges_are_laws_and_hold_the_boundary(process):
    r, t = times(0.3, 0.8)
    for x1 in range(process.data.vocabulary):
        K = bridge_matrix(process, x1, r, t)[:, reachable(process, x1, r)]
        assert (K.sum(0) - 1).abs().max() < 1e-12
        assert K.min() >= 0
        same = bridge_matrix(process, x1, r, r)
        assert (same - torch.eye(process.states)).abs().max() < 1e-12


@every_process
def test_a_position_with_r_and_t_at_one_stays(process):
    one = torch.ones((), dtype=torch.float64)
    K = bridge_matrix(process, 0, one, one)
    assert torch.equal(K, torch.eye(process.states, dtype=torch.float64))


@every_process
def test_bridges_end_at_the_clean_token(process):
    r, one = times(0.3, 1.0)
    for x1 in range(process.data.vocabulary):
        K = bridge_matrix(process, x1, r, one)[:, reachable(process, x1, r)]
        assert (K[x1] - 1).abs().max() < 1e-12


@every_process
def test_bridges_compose(process):
    """Chapman-Kolmogorov given x1."""
    r, s, t = times(0.2, 0.5, 0.9)
    for x1 in range(process.data.vocabulary):
        there = reachable(process, x1, r)
        two = bridge_matrix(process, x1, s, t) @ bridge_matrix(process, x1, r, s)
        assert (two - bridge_matrix(process, x1, r, t))[:, there].abs().max() < 1e-10


@every_process
def test_bridges_solve_the_forward_equation(process):
    """``d/dt K_{r,t} = u_t K_{r,t}`` by matrix, given x1."""
    r, t = times(0.3, 0.7)
    h = 1e-5
    for x1 in range(process.data.vocabulary):
        there = reachable(process, x1, r)
        ahead, behind = (bridge_matrix(process, x1, r, t + s) for s in (h, -h))
        slope = (ahead - behind) / (2 * h)
        flow = rate_matrix(process, x1, t) @ bridge_matrix(process, x1, r, t)
        assert (slope - flow)[:, there].abs().max() < 1e-7


@every_process
def test_the_slope_of_a_bridge_is_its_flow_also_on_the_diagonal(process):
    """``d/dt K_{r,t} = u_t K_{r,t}`` by forward mode, at t = r and close to t = 1."""
    for r, t in (times(0.3, 0.3), times(0.3, 0.999)):
        for x1 in range(process.data.vocabulary):
            there = reachable(process, x1, r)
            slope = forward_mode(lambda t, x1=x1, r=r: bridge_matrix(process, x1, r, t), t)
            flow = rate_matrix(process, x1, t) @ bridge_matrix(process, x1, r, t)
            assert (slope - flow)[:, there].abs().max() < 1e-8


@every_process
def test_bridges_are_products_of_small_steps(process):
    """The dense chain of the conditional generator, stepped by its matrix exponential."""
    r, t = times(0.4, 0.6)
    for x1 in range(process.data.vocabulary):
        there = reachable(process, x1, r)
        K, steps = torch.eye(process.states, dtype=torch.float64), 400
        for i in range(steps):
            middle = r + (t - r) * (i + 0.5) / steps
            K = torch.linalg.matrix_exp(rate_matrix(process, x1, middle) * (t - r) / steps) @ K
        assert (K - bridge_matrix(process, x1, r, t))[:, there].abs().max() < 1e-5


@every_process
def test_paths_are_corruption_then_bridge(process):
    """``x_r | x1`` and ``x_t | x_r, x1`` have their laws; r = 0 is the source."""
    r, t = 0.3, 0.8
    pairs = TimePair(*(torch.full((N,), s, dtype=torch.float64) for s in (r, t)))
    path = process.path(pairs, seeded(1), draws=2)
    assert path.x.shape == path.x1.shape == (N, process.length)
    assert path.y.shape == (N, process.length, 2)
    first = process.corrupt(path.x1, torch.zeros(N, 1, dtype=torch.float64), seeded(2))
    start = source_law(process)
    assert passes_chi_square(first.flatten(), start)
    assert passes_chi_square(process.source((N,), seeded(3)), start)
    for x1 in range(process.data.vocabulary):
        # One step from the source: the law of x_r is the bridge from 0, averaged over it.
        p_r = bridge_matrix(process, x1, *times(1e-12, r)) @ start
        here = path.x1 == x1
        assert (torch.bincount(path.x[here], minlength=process.states) / here.sum() - p_r).abs(
        ).max() < 0.02  # fmt: skip
        K = bridge_matrix(process, x1, *times(r, t))
        for x in reachable(process, x1, torch.tensor(r)):
            assert passes_chi_square(path.y[here & (path.x == x)].flatten(), K[:, x])


@every_process
def test_each_position_has_its_own_times(process):
    """A sequence with different times per position is what each position would do alone."""
    D = process.length
    g = seeded(4)
    r = torch.rand(5, D, generator=g, dtype=torch.float64) * 0.5 + 0.1
    t = r + torch.rand(5, D, generator=g, dtype=torch.float64) * (1 - r)
    t[0, 0] = r[0, 0]
    x1 = process.data.sample((5,), g)
    x = process.corrupt(x1, r, g)
    q = torch.softmax(torch.randn(5, D, process.states, generator=g, dtype=torch.float64), -1)
    together = process.bridge(x, q, r, t)
    assert (together.sum(-1) - 1).abs().max() < 1e-10
    for b, d in itertools.product(range(5), range(D)):
        alone = process.bridge(*(part[b : b + 1, d : d + 1] for part in (x, q, r, t)))
        assert torch.allclose(alone[0, 0], together[b, d], atol=1e-12)
    assert together[0, 0, x[0, 0]] == pytest.approx(1)


def test_masking_noise_is_masking():
    """Structured noise that only masks is the masking process, in bridge and generator."""
    data = PROCESSES["masking"].data
    plain, structured = Masking(data), Structured(data, masking_noise(data.vocabulary))
    r, t = times(0.25, 0.7)
    for x1 in range(data.vocabulary):
        there = [x1, data.vocabulary]
        for a, b in (
            (bridge_matrix(plain, x1, r, t), bridge_matrix(structured, x1, r, t)),
            (rate_matrix(plain, x1, t), rate_matrix(structured, x1, t)),
        ):
            assert (a - b)[:, there].abs().max() < 1e-10


def test_uniform_noise_corrupts_as_the_uniform_process_does():
    data = PROCESSES["uniform"].data
    structured = Structured(data, uniform_noise(data.vocabulary))
    r = torch.tensor(0.3, dtype=torch.float64)
    N_r = structured.noising(r, torch.ones_like(r))
    V = data.vocabulary
    expected = 0.3 * torch.eye(V, dtype=torch.float64) + 0.7 / V
    assert (N_r - expected).abs().max() < 1e-12


def joint_law(process, x_r, x1_law, r, t):
    """``P(x_t | x_r)`` and ``P(x1 | x_t)``'s ingredients by enumerating x1 in V^D."""
    n, D = process.states, process.length
    joint = torch.zeros([n] * D, dtype=torch.float64)
    for x1, p in x1_law.items():
        factors = [bridge_matrix(process, x1[d], r, t)[:, x_r[d]] for d in range(D)]
        product = factors[0]
        for factor in factors[1:]:
            product = product[..., None] * factor
        joint += p * product
    return joint


def source_law(process):
    if isinstance(process, Structured):
        return process.stationary
    if isinstance(process, Uniform):
        return torch.full((process.states,), 1 / process.states, dtype=torch.float64)
    return delta(torch.tensor(process.token), process.states, torch.float64)


def posterior(process, x, r, prior):
    """``P(x1 | x_r = x)`` over V^D."""
    weight = {}
    zero = torch.full((), 1e-12, dtype=torch.float64)
    source = source_law(process)
    for x1, p in prior.items():
        for d, token in enumerate(x1):
            p = p * (bridge_matrix(process, token, zero, r) @ source)[x[d]].item()
        weight[x1] = p
    total = sum(weight.values())
    return {x1: w / total for x1, w in weight.items()}


PRIOR = {(0, 0): 0.45, (1, 1): 0.3, (2, 0): 0.2, (1, 2): 0.05}  # a law on pairs that is no product


@pytest.mark.parametrize("name", ["masking", "absorbing"])
def test_what_the_past_adds_to_the_present_is_nothing(name):
    """Markov given x_r alone: P(x1 | x_t, x_r) = P(x1 | x_t), so kernels compose jointly."""
    process = PROCESSES[name]
    defect = _markov_defect(process)
    assert defect < 1e-6


@pytest.mark.parametrize("noise", [uniform_noise(3), chains.ring(3), chains.birth_death(3)])
def test_structured_noise_is_markov(noise):
    assert _markov_defect(Structured(PROCESSES["uniform"].data, noise)) < 1e-8


def test_the_uniform_process_is_not_markov():
    assert _markov_defect(PROCESSES["uniform"]) > 0.01


def _markov_defect(process):
    """Largest gap between K_{r,t} and K_{s,t} K_{r,s} of the marginal process on V^2."""
    r, s, t = times(0.3, 0.5, 0.8)
    n, worst = process.states, 0.0
    states = list(itertools.product(range(n), repeat=2))
    at_s = {z: posterior(process, z, s, PRIOR) for z in states if _possible(process, z, s)}
    for x in states:
        if not _possible(process, x, r):
            continue
        here = posterior(process, x, r, PRIOR)
        direct = joint_law(process, x, here, r, t)
        middle = joint_law(process, x, here, r, s)
        composed = sum(
            middle[z] * joint_law(process, z, at_s[z], s, t) for z in at_s if middle[z] > 1e-14
        )
        worst = max(worst, (direct - composed).abs().max().item())
    return worst


def _possible(process, x, r):
    if not isinstance(process, Absorbing | Masking):
        return True
    return any(all(x[d] in (x1[d], process.token) for d in range(2)) for x1 in PRIOR)


@pytest.mark.parametrize("name", ["absorbing", "structured, ring"])
def test_bad_noise_is_refused(name):
    process = PROCESSES[name]
    if isinstance(process, Absorbing):
        with pytest.raises(InputError, match="token must lie in the alphabet"):
            Absorbing(process.data, process.data.vocabulary)
    if isinstance(process, Structured):
        with pytest.raises(InputError, match="2 states, the alphabet 3"):
            Structured(process.data, chains.two_state())
        with pytest.raises(InputError, match="one stationary law"):
            Structured(process.data, ConstantGenerator(torch.zeros(3, 3)))


@pytest.mark.parametrize("kind", [Masking, Uniform, lambda d: Structured(d, chains.ring(3))])
def test_the_posterior_is_bayes_rule(kind):
    law = BigramChain.dirichlet(3, 3, 1.0)
    process = kind(law)
    clean = torch.tensor(list(itertools.product(range(3), repeat=3)))
    (r,) = times(0.4)
    x = process.corrupt(law.sample((20,), seeded()), r, seeded(1))
    seen = process.likelihood(x, r.expand(20, 1))  # (20, D, V)
    joint = law.log_prob(clean).exp() * seen[:, torch.arange(3), clean].prod(-1)
    by_hand = torch.einsum("bs,sdv->bdv", joint, delta(clean, 3, torch.float64))
    by_hand /= by_hand.sum(-1, keepdim=True)
    found = ExactPosterior(process)(x, r.expand(20, 1), r.expand(20, 1)).exp()
    assert (found[..., :3] - by_hand).abs().max() < 1e-12
    assert found[..., 3:].abs().sum() == 0


def test_a_posterior_needs_a_law():
    with pytest.raises(InputError, match="TokenArray is not"):
        ExactPosterior(PROCESSES["masking"])


def test_what_cannot_have_been_seen_is_refused():
    """A cycle 0 -> 1 -> 2 -> 0 never shows 0 twice in a row; a mask never hides at r = 1."""
    process = Masking(
        BigramChain(torch.full((3,), 1 / 3, dtype=torch.float64), torch.eye(3).roll(1, 1), 3)
    )
    for x, r in (([[0, 0, 3]], 0.5), ([[0, 3, 3]], 0.0), ([[3, 3, 3]], 1.0)):
        with pytest.raises(InputError, match="probability zero"):
            ExactPosterior(process)(torch.tensor(x), *times([[r]], [[1.0]]))


def test_an_exact_kernel_lives_where_its_process_lives():
    process = Structured(BigramChain.dirichlet(3, 3), chains.ring(3)).to("meta")
    home = BridgeKernel(ExactPosterior(process), process).home
    assert (home.device.type, home.dtype) == ("meta", torch.float64)


@pytest.mark.parametrize(
    ("law", "composes"),
    [
        (IndependentCategorical.dirichlet(3, 3, 1.0), True),
        (BigramChain.dirichlet(3, 3, 1.0), False),
    ],
)
def test_exact_posteriors_compose_where_positions_are_independent(law, composes):
    process = Structured(law, chains.ring(3))
    found = defect(exact_kernel(process), process)
    assert found < 1e-12 if composes else found > 1e-3
