"""Laws of kernels with rates: scores, Euler steps and added noise, by enumeration."""

import itertools
import math

import numpy
import pytest
import torch
from torch import nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import (
    BridgeKernel,
    DetailedBalance,
    EulerKernel,
    MaskScoreKernel,
    Redraw,
    TargetGuidance,
    UniformScoreKernel,
)
from discrete_meanflow.metric import total_variation
from discrete_meanflow.network import MLP, DiagonalNetwork
from discrete_meanflow.objective import RateKL
from discrete_meanflow.process import Absorbing, Masking, Uniform, UniformDiffusion
from discrete_meanflow.sampler import KernelSampler, temperature, top_p
from discrete_meanflow.schedule import cosine, distorted_grid, polydec
from discrete_meanflow.simplex import delta
from laws.enumeration import Tilted, enumerated, expected_gradient
from laws.joint_law import LAW, OneHot, Scores, after, exact_kernel, generator, joint_states, noised
from problems import seeded
from statistics_of_draws import passes_chi_square

MIXTURES = {"masking": Masking(3), "absorbing": Absorbing(3, 1), "uniform": Uniform(3)}
PROCESSES = {**MIXTURES, "uniform diffusion": UniformDiffusion(3)}
SCORED = {"masking": MaskScoreKernel, "uniform diffusion": UniformScoreKernel}
NOISE = {"detailed balance": DetailedBalance(2.0), "redraw": Redraw(2.0)}
every_process = pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES)
every_mixture = pytest.mark.parametrize("process", MIXTURES.values(), ids=MIXTURES)
every_scored = pytest.mark.parametrize("name", SCORED)
every_noise = pytest.mark.parametrize("term", NOISE.values(), ids=NOISE)
START, END = 0.1, 0.8
STEPS = (8, 16, 32, 64)


def exact_score(name):
    process = PROCESSES[name]
    network = OneHot(exact_kernel(process).network)
    return SCORED[name](Scores(network, process), process)


def order(errors):
    """The slope of log error over log step size."""
    return numpy.polyfit(-numpy.log(STEPS), numpy.log(errors), 1)[0]


def grids(start=START, end=END):
    return [torch.linspace(start, end, k + 1, dtype=torch.float64).tolist() for k in STEPS]


@every_process
def test_the_exact_rates_carry_the_noised_law(process):
    """Matrix exponentials of the generator of all states, in small steps, take p_r to p_t."""
    kernel, steps = exact_kernel(process), 400
    possible = noised(process, 0.5) > 0
    law, h = noised(process, START)[possible], (END - START) / steps
    for i in range(steps):
        u = generator(kernel, START + (i + 0.5) * h, possible)
        law = torch.linalg.matrix_exp(u * h) @ law
    assert total_variation(law, noised(process, END)[possible]) < 1e-5


@every_process
def test_euler_steps_converge_with_order_one(process):
    kernel = EulerKernel(exact_kernel(process))
    start, end = noised(process, START), noised(process, END)
    errors = [total_variation(after(kernel, start, grid), end) for grid in grids()]
    assert order(errors) == pytest.approx(1, abs=0.15)
    assert errors[-1] < 0.01


@every_process
def test_the_ancestral_sampler_converges_with_order_one(process):
    """Positions are drawn independently, which costs an error of first order in the step."""
    kernel = exact_kernel(process)
    start, end = noised(process, START), noised(process, END)
    errors = [total_variation(after(kernel, start, grid), end) for grid in grids()]
    assert order(errors) == pytest.approx(1, abs=0.15)


@every_process
@pytest.mark.parametrize("euler", [False, True])
def test_samples_from_the_source_converge_to_the_data(process, euler):
    kernel = exact_kernel(process)
    kernel = EulerKernel(kernel) if euler else kernel
    clean = torch.nn.functional.pad(
        LAW.log_prob(joint_states(3)).exp().view(3, 3), (0, process.states - 3) * 2
    )
    errors = [
        total_variation(after(kernel, noised(process, 0.0), grid), clean.flatten())
        for grid in grids(0.0, 1.0)
    ]
    assert order(errors) == pytest.approx(1, abs=0.2)
    assert errors[-1] < 0.02


@every_mixture
@pytest.mark.parametrize("distortion", [polydec, cosine])
def test_distorted_steps_converge_with_order_one(process, distortion):
    """From the source to the data, on grids of DeFoG with short last steps."""
    kernel, end = EulerKernel(exact_kernel(process)), noised(process, 1.0)
    grids = [distorted_grid(k, distortion) for k in STEPS]
    errors = [total_variation(after(kernel, noised(process, 0.0), grid), end) for grid in grids]
    assert order(errors) == pytest.approx(1, abs=0.25)


@every_mixture
@every_noise
def test_noise_leaves_the_conditional_laws(process, term):
    """``sum_x R(y, x) p_t(x | x1) = 0`` for every x1: the term alone does not change p_t."""
    x = torch.arange(process.states)
    t = torch.full(x.shape, 0.3, dtype=torch.float64)
    for x1 in range(process.vocabulary):
        p = process.likelihood(x, t)[:, x1]
        q = delta(torch.full(x.shape, x1), process.states, torch.float64)
        rates = term(process, x, q, t) * (p > 0)[:, None]  # (x, y)
        rates = rates - torch.diag(rates.diagonal())
        assert rates.min() >= 0
        assert process is MIXTURES["absorbing"] or rates.sum() > 0
        assert (rates * p[:, None] - (rates * p[:, None]).T).abs().max() < 1e-12


@every_mixture
@every_noise
def test_with_noise_euler_steps_converge_to_the_same_law(process, term):
    start, end = noised(process, START), noised(process, END)
    kernel = EulerKernel(exact_kernel(process), term)
    assert (
        after(kernel, start, grids()[0]) - after(kernel.kernel, start, grids()[0])
    ).abs().max() > 1e-3
    errors = [total_variation(after(kernel, start, grid), end) for grid in grids()]
    assert order(errors) == pytest.approx(1, abs=0.2)


@every_mixture
def test_the_rates_of_defog_are_those_of_the_mixture_path(process):
    """R* of Campbell et al. and DeFoG, ``relu(dp(y) - dp(x)) / (Z p(x))`` given x1."""
    x, t = torch.arange(process.states), torch.full((process.states,), 0.3, dtype=torch.float64)
    for x1 in range(process.vocabulary):
        p = process.likelihood(x, t)[:, x1]
        h = 1e-6
        slope = (process.likelihood(x, t + h) - process.likelihood(x, t - h))[:, x1] / (2 * h)
        rates = (slope[None, :] - slope[:, None]).clamp(min=0) / ((p > 0).sum() * p[:, None])
        rates[:, p == 0] = 0
        exact = process.rate(x, t, torch.full(x.shape, x1)).clamp(min=0)
        assert (rates - exact)[p > 0].abs().max() < 1e-8


@every_mixture
def test_target_guidance_hastens_the_jumps_to_the_data(process):
    """Given x1 it divides the time to the jump; samples then miss the law, in proportion."""
    term, t = TargetGuidance(0.5), torch.tensor([0.3], dtype=torch.float64)
    x1, x = 0, torch.tensor([process.states - 1 if process is not MIXTURES["absorbing"] else 1])
    q = delta(torch.tensor([x1]), process.states, torch.float64)
    support = 2 if process is not MIXTURES["uniform"] else 3
    p = process.likelihood(x, t)[0, x1]
    expected = 0.5 / (support * p) * q
    assert (term(process, x, q, t) - expected).abs().max() < 1e-12
    start, end = noised(process, START), noised(process, END)
    errors = [
        total_variation(
            after(EulerKernel(exact_kernel(process), TargetGuidance(w)), start, grids()[-1]), end
        )
        for w in (0.0, 0.2, 0.4)
    ]
    assert errors[0] < errors[1] < errors[2]
    assert errors[2] > 10 * errors[0]


@every_scored
def test_the_exact_score_is_stationary(name):
    process, network = PROCESSES[name], Tilted(PROCESSES[name])
    kernel = SCORED[name](Scores(network, process), process)
    path, weight = enumerated(process)
    (gradient,) = expected_gradient(RateKL(), kernel, path, weight)
    assert gradient.abs().max() < 1e-9
    with torch.no_grad():
        noise = process.states - 1
        network.theta[noise, noise, 0, 0] = 0.3
    (gradient,) = expected_gradient(RateKL(), kernel, path, weight)
    assert gradient.abs().max() > 1e-4


@every_scored
@pytest.mark.parametrize(("r", "t"), [(0.01, 0.3), (0.3, 0.8), (0.3, 0.3), (0.6, 1.0)])
def test_the_analytic_step_of_the_exact_score_is_the_bridge(name, r, t):
    """Tweedie's law of each position equals the bridge averaged over the exact posterior."""
    process = PROCESSES[name]
    x = joint_states(process.states)
    times = [torch.full(x.shape, s, dtype=torch.float64) for s in (r, t)]
    score, bridge = exact_score(name), exact_kernel(process)
    assert (score.probs(x, *times) - bridge.probs(x, *times)).abs().max() < 1e-12
    if r == t:
        rates = [kernel.rate(x, kernel(x, *times), times[0]) for kernel in (score, bridge)]
        assert (rates[0] - rates[1]).abs().max() < 1e-10


@pytest.mark.parametrize("processor", [temperature(0.5), top_p(0.6)], ids=["temperature", "top-p"])
@pytest.mark.parametrize("euler", [False, True])
def test_processors_change_symbols_and_not_the_rate_of_unmasking(processor, euler):
    """A processed score makes the step that the processed law of x1 makes."""
    x = joint_states(4)
    r, t = (torch.full(x.shape, s, dtype=torch.float64) for s in (0.2, 0.5))
    laws = []
    for kernel in (exact_score("masking"), exact_kernel(PROCESSES["masking"])):
        kernel = EulerKernel(kernel) if euler else kernel
        logits = KernelSampler(kernel, (0.2, 0.5), [processor]).processed(kernel(x, r, t))
        laws.append(kernel.law(x, logits, r, t))
    assert (laws[0] - laws[1]).abs().max() < 1e-12
    assert (laws[0] - exact_score("masking").probs(x, r, t)).abs().max() > 0.01


@every_scored
@pytest.mark.parametrize("euler", [False, True])
def test_score_samplers_converge_with_order_one(name, euler):
    kernel = EulerKernel(exact_score(name)) if euler else exact_score(name)
    start, end = noised(PROCESSES[name], START), noised(PROCESSES[name], END)
    errors = [total_variation(after(kernel, start, grid), end) for grid in grids()]
    assert order(errors) == pytest.approx(1, abs=0.15)


@every_scored
def test_scores_need_no_law(name):
    """Unnormalised scores: laws are laws, and the last step leaves no mask."""
    process = PROCESSES[name]
    torch.manual_seed(1)
    kernel = SCORED[name](MLP(process.states, 16, 3), process).double()
    x = torch.arange(process.states)
    for r, t in itertools.combinations((0.0, 0.3, 0.9, 1.0), 2):
        times = [torch.full(x.shape, s, dtype=torch.float64) for s in (r, t)]
        law = kernel.probs(x, *times)
        assert law.min() >= 0
        assert (law.sum(-1) - 1).abs().max() < 1e-12
        assert t < 1 or law[:, process.vocabulary :].sum() == 0


def test_the_normalisation_of_a_score_has_a_gradient():
    """Under masking the score entropy also fits the sum of the scores, which is V here."""
    path, weight = enumerated(Masking(3))
    process = PROCESSES["masking"]

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.exact = Tilted(process)
            self.scale = nn.Parameter(torch.zeros(1, dtype=torch.float64))

        def forward(self, x, r, t):
            return self.exact(x, r, t) + math.log(3) + self.scale

    network = Scaled()
    kernel = MaskScoreKernel(network, process)
    losses = []
    for scale in (-0.1, 0.0, 0.1):
        network.scale.data.fill_(scale)
        losses.append((RateKL().by_position(kernel, path).sum(-1) * weight).sum().item())
    assert losses[1] < min(losses[0], losses[2])


@every_mixture
def test_draws_follow_the_law_of_a_step(process):
    torch.manual_seed(2)
    network = DiagonalNetwork(MLP(process.states, 16, 3))
    bridge = BridgeKernel(network, process, process.token).double()
    kernel = EulerKernel(bridge, Redraw(1.0), TargetGuidance(0.3))
    x = torch.ones(20_000, dtype=torch.long)
    y = KernelSampler(kernel, (0.2, 0.7)).sample(x, seeded())
    assert passes_chi_square(y, kernel.matrix(0.2, 0.7)[:, 1].detach())


def test_bad_terms_are_rejected():
    for term in (DetailedBalance, Redraw, TargetGuidance):
        with pytest.raises(InputError, match="finite and >= 0"):
            term(-1.0)
    diffusion = BridgeKernel(MLP(3, 16, 3), UniformDiffusion(3))
    with pytest.raises(InputError, match="mixture path"):
        EulerKernel(diffusion, Redraw(1.0))
