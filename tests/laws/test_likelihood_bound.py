"""Laws of the likelihood bounds: above the exact one, and tight for exact models."""

import math

import pytest
import torch
from torch import nn

from discrete_meanflow.data import IndependentCategorical
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import (
    BridgeKernel,
    ExactPosterior,
    FlowMapKernel,
    MaskScoreKernel,
    UniformScoreKernel,
)
from discrete_meanflow.network import MLP
from discrete_meanflow.objective.likelihood_bound import (
    bits_per_symbol,
    one_hot_flow_bound,
    rate_bound,
    transition_bound,
)
from discrete_meanflow.process import Absorbing, Masking, OneHotFlow, Uniform, UniformDiffusion
from laws.joint_law import LAW, OneHot, Scores, after, exact_kernel, joint_states, noised
from problems import seeded

REPEATS = 2000
CLEAN = joint_states(3)
EXACT = -LAW.log_prob(CLEAN)
FLOW = FlowMapKernel(ExactPosterior(LAW, OneHotFlow(3)), 3)
ORDERED = FlowMapKernel(ExactPosterior(LAW, OneHotFlow(3, ordered=(3,))), 3, ordered=(3,))
TIGHT = {
    "masking": lambda x1, g: rate_bound(exact_kernel(Masking(3)), x1, g, 16),
    "absorbing": lambda x1, g: rate_bound(exact_kernel(Absorbing(3, 1)), x1, g, 16),
    "uniform diffusion": lambda x1, g: rate_bound(exact_kernel(UniformDiffusion(3)), x1, g, 16),
    "ending early": lambda x1, g: rate_bound(exact_kernel(Masking(3)), x1, g, 16, end=0.999),
    "one-hot flow": lambda x1, g: one_hot_flow_bound(FLOW, x1, g, 16),
    "one-hot flow, ordered": lambda x1, g: one_hot_flow_bound(ORDERED, x1, g, 16),
    "transitions": lambda x1, g: transition_bound(
        exact_kernel(UniformDiffusion(3)), x1, g, 100, 50
    ),
}


def bounds(estimate, x1=CLEAN):
    """The bound of each sequence, and the standard error."""
    nats = estimate(x1.repeat(REPEATS, 1), seeded()).view(REPEATS, len(x1))
    return nats.mean(0), nats.std(0) / math.sqrt(REPEATS)


@pytest.mark.parametrize("name", TIGHT)
def test_exact_models_have_a_tight_bound(name):
    """The reverse process is then the exact one, so the bound is ``-log p(x1)`` of each x1."""
    bound, error = bounds(TIGHT[name])
    assert ((bound - EXACT).abs() < 5.5 * error + 2e-3).all()
    p = EXACT.neg().exp()
    assert (p * (bound - EXACT)).sum().abs() < 5.5 * (p * error).norm() + 2e-3
    assert (p * error).norm() < 0.012


def test_a_late_start_costs_the_divergence_from_the_source():
    """The model then draws x_start from the uniform law, not from ``p_start``."""
    process, start = UniformDiffusion(3), 0.4
    kernel = exact_kernel(process)
    kernel.earliest = start
    at_start = torch.full(CLEAN.shape, start, dtype=torch.float64)
    seen = process.likelihood(CLEAN, at_start)[:, torch.arange(2), CLEAN].prod(-1)  # (x, x1)
    excess = (seen * (noised(process, start) * 9).log()[:, None]).sum(0)
    bound, error = bounds(lambda x1, g: rate_bound(kernel, x1, g, 32))
    assert ((bound - EXACT - excess).abs() < 5.5 * error + 2e-3).all()
    assert excess.abs().max() > 0.02
    assert 5.5 * error.max() < 0.15  # half of what the start costs


def test_the_uniform_mixture_is_not_markov_and_its_bound_is_loose():
    """Its rates given x_r are exact on average, but not its paths."""
    bound, error = bounds(lambda x1, g: rate_bound(exact_kernel(Uniform(3)), x1, g, 16))
    p = EXACT.neg().exp()
    assert (p * (bound - EXACT)).sum() > 0.2 + 5.5 * (p * error).norm()


class Fixed(nn.Module):
    """Logits that depend on the sequence by a random table."""

    def __init__(self, states, seed=0):
        super().__init__()
        table = torch.randn(states**2, 2, states, generator=seeded(seed), dtype=torch.float64)
        self.table = nn.Parameter(table)

    def forward(self, x, r, t):
        index = x.argmax(-1)
        return self.table[index[..., 0] * x.shape[-1] + index[..., 1]] + r[..., None]


@pytest.mark.parametrize(
    "process", [Masking(3), Absorbing(3, 1), UniformDiffusion(3), Uniform(3)], ids=repr
)
@pytest.mark.parametrize("steps", [1, 3])
def test_the_bound_of_a_chain_lies_above_its_exact_likelihood(process, steps):
    """The law of the samples, by enumeration of all paths, gives the exact likelihood."""
    token = getattr(process, "token", None)
    kernel = BridgeKernel(Fixed(process.states), process, token)
    grid = torch.linspace(0, 1, steps + 1, dtype=torch.float64).tolist()
    law = after(kernel, noised(process, 0.0), grid)
    law = law.view(process.states, process.states)[:3, :3].flatten()
    assert law.sum().item() == pytest.approx(1)
    bound, error = bounds(lambda x1, g: transition_bound(kernel, x1, g, steps, 3 * steps))
    assert (bound > -law.log() - 5.5 * error - 1e-9).all()
    assert (
        steps > 1
        or isinstance(process, Uniform | UniformDiffusion)
        or ((bound + law.log()).abs().max() < 1e-5)
    )  # one step from one start


class Tilted(nn.Module):
    """The exact posterior with its logits tilted at random."""

    def __init__(self, process):
        super().__init__()
        self.exact, self.tilt = OneHot(exact_kernel(process).network), Fixed(process.states)

    def forward(self, x, r, t):
        return self.exact(x, r, t) + 0.7 * self.tilt(x, r, t)


def tilted_kernels():
    masking, diffusion = Masking(3), UniformDiffusion(3)
    return {
        "masking": BridgeKernel(Tilted(masking), masking, masking.token),
        "uniform diffusion": BridgeKernel(Tilted(diffusion), diffusion),
        "mask scores": MaskScoreKernel(Scores(Tilted(masking), masking), masking),
        "uniform scores": UniformScoreKernel(Scores(Tilted(diffusion), diffusion), diffusion),
    }


@pytest.mark.parametrize("name", tilted_kernels())
def test_the_bound_of_rates_lies_above_the_likelihood_of_many_steps(name):
    kernel = tilted_kernels()[name]
    process = kernel.process
    even = torch.linspace(kernel.earliest, 1 - 1e-3, 300, dtype=torch.float64).tolist()
    with torch.no_grad():
        law = after(kernel, noised(process, 0.0), [*even, 1.0])
    law = law.view(process.states, process.states)[:3, :3].flatten()
    assert law.sum().item() == pytest.approx(1)
    bound, error = bounds(lambda x1, g: rate_bound(kernel, x1, g, 16))
    gap = bound + law.log()
    assert (gap > -5.5 * error - 0.02).all()
    assert 5.5 * error.norm() / 9 < gap.mean() < 0.7


def test_independent_positions_have_a_tight_bound_in_any_number_of_steps():
    law = IndependentCategorical.dirichlet(3, 2, 1.0)
    process = Masking(3)
    kernel = BridgeKernel(ExactPosterior(law, process), process, 3)
    bound, error = bounds(lambda x1, g: transition_bound(kernel, x1, g, 4, 8))
    assert ((bound + law.log_prob(CLEAN)).abs() < 5.5 * error + 1e-5).all()


@pytest.mark.parametrize("name", ["masking", "uniform diffusion", "one-hot flow"])
def test_given_observed_positions_it_bounds_the_conditional_likelihood(name):
    observed = torch.tensor([True, False]).expand(9 * REPEATS, 2)
    estimate = {
        "masking": lambda x1, g: rate_bound(exact_kernel(Masking(3)), x1, g, 16, observed=observed),
        "uniform diffusion": lambda x1, g: rate_bound(
            exact_kernel(UniformDiffusion(3)), x1, g, 16, observed=observed
        ),
        "one-hot flow": lambda x1, g: one_hot_flow_bound(FLOW, x1, g, 16, observed=observed),
    }[name]
    bound, error = bounds(estimate)
    exact = -LAW.rows[CLEAN[:, 0], CLEAN[:, 1]].log()
    assert ((bound - exact).abs() < 5.5 * error + 2e-3).all()


def test_bits_per_symbol():
    assert bits_per_symbol(torch.tensor([2.0, 4.0]) * math.log(2), 3) == pytest.approx(1)


def test_bad_sequences_are_rejected():
    kernel = BridgeKernel(MLP(4, 16, 3), Masking(3), 3)
    for x1, draws in ((torch.zeros(3, dtype=torch.long), 4), (CLEAN, 0)):
        with pytest.raises(InputError, match="at least one draw"):
            rate_bound(kernel, x1, seeded(), draws)
