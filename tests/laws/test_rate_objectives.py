"""Laws of the divergences of rates and of transitions, by enumeration."""

import pytest
import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import BoundaryKernel, BridgeKernel
from discrete_meanflow.network import MLP, DiagonalNetwork
from discrete_meanflow.objective import KernelCE, RateKL, TransitionKL, forward_mode
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import (
    Absorbing,
    Masking,
    MixturePath,
    Structured,
    Uniform,
    UniformDiffusion,
)
from discrete_meanflow.schedule import Linear
from discrete_meanflow.times import GridTimes, OneTime
from laws.enumeration import DATA, Tilted, enumerated, expected_gradient
from problems import noisy_ring, seeded, uniform_noise

PROCESSES = {
    "masking": Masking(3),
    "absorbing": Absorbing(3, 1),
    "uniform": Uniform(3),
    "uniform diffusion": UniformDiffusion(3),
    "ring": noisy_ring(3),
}
OBJECTIVES = {
    "rates": RateKL(),
    "transitions": TransitionKL(2),
    "transitions and CE": TransitionKL(2, 0.5),
}
every_process = pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES)
every_objective = pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)


def kernel_of(process, network):
    token = process.token if isinstance(process, MixturePath) else None
    return BridgeKernel(network, process, token)


def random_kernel(process, network=None):
    torch.manual_seed(0)
    return kernel_of(process, network or MLP(process.states, 16, 3))


@every_process
@every_objective
def test_the_exact_posterior_is_stationary(process, objective):
    network = Tilted(process)
    kernel = kernel_of(process, network)
    path, weight = enumerated(process)
    (gradient,) = expected_gradient(objective, kernel, path, weight)
    assert gradient.abs().max() < 1e-9
    with torch.no_grad():
        noise = process.token if isinstance(process, Absorbing | Masking) else 0
        network.theta[noise, noise, 0, 0] = 0.3
    (gradient,) = expected_gradient(objective, kernel, path, weight)
    assert gradient.abs().max() > 1e-4


@every_process
def test_the_rate_is_the_derivative_of_the_law(process):
    kernel = random_kernel(process, DiagonalNetwork(MLP(process.states, 16, 3))).double()
    x = torch.arange(process.states)
    r = torch.full(x.shape, 0.3, dtype=torch.float64)
    slope = forward_mode(lambda t: kernel.probs(x, r, t), r)
    assert (kernel.rate(x, kernel(x, r, r), r) - slope).abs().max() < 1e-9


def test_masking_makes_it_the_weighted_cross_entropy():
    """The bound of MDLM: ``-log q(x1) / (1 - r)`` where masked, for a q without the mask."""
    kernel = random_kernel(PROCESSES["masking"]).double()
    path, _ = enumerated(kernel.process)
    path = path._replace(t=path.r)
    log_q = kernel.log_q(path.x, kernel(path.x, path.r, path.r))
    assert log_q[path.x == 3][:, 3].max() == -torch.inf
    nll = KernelCE()(kernel, path)
    assert RateKL()(kernel, path).item() == pytest.approx(nll.item() / (1 - path.r[0].item()))


@every_process
def test_short_transitions_are_rates(process):
    """``T KL`` over steps of length 1/T tends to the rate KL, with an error of order 1/T."""
    kernel = random_kernel(process, DiagonalNetwork(MLP(process.states, 16, 3))).double()
    path, _ = enumerated(process)
    limit = RateKL()(kernel, path)
    gaps = [
        abs(TransitionKL(steps)(kernel, path._replace(t=path.r + 1 / steps)) - limit).item()
        for steps in (200, 400)
    ]
    assert gaps[1] < 0.02 * limit.item()
    assert gaps[1] < 1e-9 or gaps[0] / gaps[1] == pytest.approx(2, abs=0.1)


@every_process
@every_objective
def test_losses_and_gradients_are_finite_and_observed_positions_have_none(process, objective):
    """In float32, with times close to the data and observed positions at time 1."""
    kernel = random_kernel(process)
    transitions = isinstance(objective, TransitionKL)
    times = GridTimes(2) if transitions else OneTime()
    path = DataPaths(process, DATA, times, conditioning=0.5).sample((4000,), seeded(), 0)
    observed = path.r == 1
    assert observed.any()
    each = objective.by_position(kernel, path)
    assert each[observed].abs().max() == 0
    assert each.min() > -1e-2
    gradients = torch.autograd.grad(objective(kernel, path), list(kernel.parameters()))
    assert all(bool(g.isfinite().all()) for g in gradients)
    assert max(g.abs().max() for g in gradients) > 0


def test_uniform_diffusion_is_structured_noise_in_closed_form():
    closed, general = UniformDiffusion(3), Structured(uniform_noise(3))
    g = seeded()
    x = torch.arange(3).repeat(50)
    q = torch.rand(150, 3, generator=g, dtype=torch.float64).softmax(-1)
    r, t = torch.rand(2, 150, generator=g, dtype=torch.float64).sort(0).values
    r[:3] = 0
    assert (closed.bridge(x, q, r, t) - general.bridge(x, q, r, t)).abs().max() < 1e-10
    rates = [process.marginal_rate(x, q, t) * (1 - t[:, None]) for process in (closed, general)]
    assert (rates[0] - rates[1]).abs().max() < 1e-9


@every_objective
def test_they_say_what_they_need(objective):
    path, _ = enumerated(Masking(3))
    boundary = BoundaryKernel(MLP(4, 16, 3), 4, Linear(), 3).double()
    with pytest.raises(InputError, match="BridgeKernel"):
        objective(boundary, path)
    with pytest.raises(InputError, match="clean data x1"):
        objective(random_kernel(Masking(3)).double(), path._replace(x1=torch.empty(9, 0)))


def test_bad_settings_are_rejected():
    for bad in (lambda: TransitionKL(0), lambda: TransitionKL(4, -1.0)):
        with pytest.raises(InputError, match="steps >= 1 and ce_weight >= 0"):
            bad()
    with pytest.raises(InputError, match="at least one step"):
        GridTimes(0)
