"""Laws of the objectives on sequences: their minimum is the exact kernel, by enumeration."""

import math

import pytest
import torch
from torch import nn

from discrete_meanflow.ctmc import chains
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import (
    BoundaryKernel,
    BridgeKernel,
    FlowMapKernel,
    UnconstrainedKernel,
)
from discrete_meanflow.network import MLP, DiagonalNetwork, DiT, FlatMLP, Transformer
from discrete_meanflow.objective import (
    KernelCE,
    KernelResidual,
    LagrangianLoss,
    PosteriorRegression,
    RaoBlackwell,
    ResidualKL,
    SampledRate,
    Weighted,
    forward_mode,
    hybrid,
    remaining_time,
    self_distillation,
)
from discrete_meanflow.objective.time_derivative import value_and_slope
from discrete_meanflow.process import (
    Absorbing,
    ChainProcess,
    Masking,
    OneHotFlow,
    PathSample,
    RandomPositions,
    Structured,
    Uniform,
)
from discrete_meanflow.schedule import Linear
from discrete_meanflow.simplex import delta
from discrete_meanflow.times import TimePair
from laws.enumeration import DATA, R, T, Tilted, enumerated, expected_gradient
from problems import GENERATORS, seeded, uniform_noise

PROCESSES = {
    "masking": Masking(3),
    "absorbing": Absorbing(3, 1),
    "structured": Structured(uniform_noise(3)),
    "ring": Structured(chains.ring(3)),
    "ordinal": Structured(chains.birth_death(3)),
    # Not Markov given x_r: there the targets are unbiased for the slope of P(x_t | x_r).
    "uniform": Uniform(3),
}
every_process = pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES)


def kernel_of(process, network):
    if isinstance(process, Structured):
        return BridgeKernel(network, process)
    return BoundaryKernel(network, process.states, Linear(), mask=process.token)


OBJECTIVES = {
    "KR": lambda process: KernelResidual(SampledRate(process)),
    "PR": lambda process: PosteriorRegression(),
    "KCE": lambda process: KernelCE(),
    "hybrid": lambda process: hybrid(KernelResidual(SampledRate(process)), KernelCE(), 0.1),
    "Rao-Blackwell": lambda process: KernelResidual(RaoBlackwell(process)),
    "Rao-Blackwell, weighted": lambda process: KernelResidual(
        RaoBlackwell(process), weight=remaining_time
    ),
    "KL form": lambda process: ResidualKL(),
}
every_objective = pytest.mark.parametrize("make", OBJECTIVES.values(), ids=OBJECTIVES)


@every_process
@every_objective
def test_the_exact_kernel_is_stationary(process, make):
    """For structured noise the exact kernel is the bridge of the exact posterior."""
    network = Tilted(process)
    kernel = kernel_of(process, network)
    path, weight = enumerated(process)
    assert weight.sum().item() == pytest.approx(1)
    (gradient,) = expected_gradient(make(process), kernel, path, weight)
    assert gradient.abs().max() < 1e-9
    with torch.no_grad():
        noise = process.token if isinstance(process, Absorbing | Masking) else 0
        network.theta[noise, noise, 0, 0] = 0.3
    (gradient,) = expected_gradient(make(process), kernel, path, weight)
    assert gradient.abs().max() > 1e-4


def conditional_means(values, path, weight):
    """``E[values | x_r]`` for each x_r that occurs, with the law of x_r."""
    key = path.x[:, 0] * 100 + path.x[:, 1]
    for code in key.unique():
        here = key == code
        fraction = weight[here].sum()
        yield here, (values[here] * weight[here, None, None]).sum(0) / fraction, fraction


@every_process
@pytest.mark.parametrize(("r", "t"), [(0.1, 0.2), (R, T), (0.6, 0.97)])
def test_every_estimator_is_unbiased(process, r, t):
    """``E[g | x_r]`` is ``d/dt K_{r,t}(., x_r)`` of the exact kernel, by enumeration."""
    kernel = kernel_of(process, Tilted(process, r))
    for estimator in (SampledRate(process), SampledRate(process, 2), RaoBlackwell(process)):
        path, weight = enumerated(process, r, t, max(1, estimator.needs.draws))
        exact = forward_mode(lambda t, path=path: kernel.probs(path.x, path.r, t), path.t).detach()
        g = estimator(kernel, path)
        for here, mean, _ in conditional_means(g, path, weight):
            assert (mean - exact[here][0]).abs().max() < 1e-9


def variance(estimator, r, t):
    """``E |g - E[g | x_r]|^2``, summed over positions."""
    path, weight = enumerated(estimator.process, r, t, max(1, estimator.needs.draws))
    total = 0.0
    for here, mean, _ in conditional_means(g := estimator(None, path), path, weight):
        total += ((g[here] - mean).square().sum((-1, -2)) * weight[here]).sum().item()
    return total


@every_process
@pytest.mark.parametrize("t", [0.4, 0.8, 0.97])
def test_averaging_out_the_endpoint_lowers_the_variance(process, t):
    """Single sample above two, two above Rao-Blackwell: what x_t adds falls as 1/m."""
    single, two = (variance(SampledRate(process, m), R, t) for m in (1, 2))
    averaged = variance(RaoBlackwell(process), R, t)
    assert averaged < two < single
    assert two - averaged == pytest.approx((single - averaged) / 2, rel=1e-6)
    if isinstance(process, Masking):
        assert averaged == pytest.approx(variance(RaoBlackwell(process), R, R + 0.01))
        if t > 0.9:
            assert single > 10 * averaged


@pytest.mark.parametrize("t", [R + 0.01, T, 0.99])
def test_the_variances_under_masking_are_as_derived(t):
    """From an all-mask start, r = 0: 2/(1 - t) - |delta - p|^2, and 1 - |p|^2 for all t."""
    process = PROCESSES["masking"]
    p = torch.stack([delta(DATA.tokens[:, d], 4, torch.float64).mean(0) for d in range(2)])
    square = p.square().sum()
    assert variance(RaoBlackwell(process), 0.0, t) == pytest.approx((2 - square).item())
    expected = (2 * (2 / (1 - t) - 1) - square).item()
    assert variance(SampledRate(process), 0.0, t) == pytest.approx(expected)


def test_the_masking_targets_are_as_derived():
    """``(delta_{x1} - delta_{x_r}) / (1 - r)``, and ``1 - r`` takes the last divergence away."""
    process = PROCESSES["masking"]
    path, _ = enumerated(process)
    g = RaoBlackwell(process)(None, path)
    expected = (delta(path.x1, 4, torch.float64) - delta(path.x, 4, torch.float64)) / (1 - R)
    assert (g - expected).abs().max() < 1e-12
    assert torch.equal(remaining_time(path.r, path.t), 1 - path.r)


def test_the_kl_form_is_cross_entropy_for_a_network_blind_to_t():
    """The proposition: where q does not depend on t, the identity adds nothing to kernel-CE."""
    process = PROCESSES["masking"]
    torch.manual_seed(0)
    path, _ = enumerated(process)
    blind = BoundaryKernel(DiagonalNetwork(MLP(4, 16, 3)), 4, Linear(), mask=process.token).double()
    same = [objective(blind, path).item() for objective in (ResidualKL(), KernelCE())]
    assert same[0] == pytest.approx(same[1], abs=1e-14)
    seeing = BoundaryKernel(MLP(4, 16, 3), 4, Linear(), mask=process.token).double()
    assert abs(ResidualKL()(seeing, path) - KernelCE()(seeing, path)) > 1e-5


def test_the_kl_form_is_a_law_and_counts_clamping():
    """qtilde sums to one over x1; a network that falls steeply in t runs into the clamp."""
    process = PROCESSES["masking"]
    path, _ = enumerated(process)
    torch.manual_seed(0)
    kernel = BoundaryKernel(MLP(4, 16, 3), 4, Linear(), mask=process.token).double()
    total = 0.0
    for token in range(4):
        value, bracket = ResidualKL()._at_x1(
            kernel, path._replace(x=torch.full_like(path.x, 3), x1=torch.full_like(path.x1, token))
        )
        total = total + value.exp() * bracket
    assert (total - 1).abs().max() < 1e-12
    assert ResidualKL().clipped(kernel, path) == 0

    class Falling(nn.Module):
        def forward(self, x, r, t):
            slope = torch.tensor([-40.0, 0.0, 0.0, 0.0], dtype=torch.float64)
            return (t[..., None] * slope).expand(x.shape)

    falling = BoundaryKernel(Falling(), 4, Linear(), mask=process.token)
    assert 0 < ResidualKL().clipped(falling, path) < 1
    assert ResidualKL()(falling, path).isfinite()
    with pytest.raises(InputError, match="floor must lie in"):
        ResidualKL(0.0)


def test_estimators_say_what_they_need():
    chain = ChainProcess(GENERATORS["ring"])
    with pytest.raises(InputError, match="needs clean data x1"):
        RaoBlackwell(chain)
    times = torch.zeros(4, dtype=torch.float64)
    path = chain.path(TimePair(times, times + 0.5), torch.Generator())
    with pytest.raises(InputError, match="KL form needs"):
        ResidualKL()(BoundaryKernel(MLP(3, 16, 3), 3, Linear()), path)


def test_revealed_positions_stay_and_cost_nothing():
    process = PROCESSES["masking"]
    torch.manual_seed(0)
    kernel = BoundaryKernel(MLP(4, 16, 3), 4, Linear(), mask=process.token).double()
    x = torch.tensor([[0, 2], [1, 1]])
    r, t = (torch.full((2, 1), s, dtype=torch.float64) for s in (R, T))
    assert torch.equal(kernel.probs(x, r, t), delta(x, 4, torch.float64))
    path = PathSample(x, r, t, x[..., None], torch.empty(2, 2, 0), x, t)
    for objective in (KernelCE(), PosteriorRegression(), KernelResidual(SampledRate(process))):
        loss = objective(kernel, path)
        assert loss.item() == 0
        gradients = torch.autograd.grad(loss, list(kernel.parameters()), allow_unused=True)
        assert all(g is None or g.abs().max() == 0 for g in gradients)


def test_posterior_regression_depends_on_one_time():
    process = PROCESSES["masking"]
    torch.manual_seed(0)
    kernel = BoundaryKernel(MLP(4, 16, 3), 4, Linear(), mask=process.token).double()
    path, _ = enumerated(process)
    later = path._replace(t=path.t + 0.1)
    assert PosteriorRegression()(kernel, path) == PosteriorRegression()(kernel, later)
    assert KernelCE()(kernel, path) != KernelCE()(kernel, later)


def test_the_ends_of_the_hybrid_are_its_terms():
    a, b = KernelResidual(SampledRate(PROCESSES["masking"])), KernelCE()
    assert hybrid(a, b, 0) is a
    assert hybrid(a, b, math.inf) is b
    assert isinstance(hybrid(a, b, 0.1), Weighted)
    assert hybrid(a, b, 0.1).needs.draws == 1
    assert hybrid(ResidualKL(), b, 0.1).needs.diagonal == ResidualKL.needs.diagonal > 0
    for weight in (-1.0, math.nan):
        with pytest.raises(InputError, match="lambda must be >= 0"):
            hybrid(a, b, weight)


def test_cross_entropy_says_what_it_needs():
    path, _ = enumerated(PROCESSES["masking"])
    with pytest.raises(InputError, match="law q"):
        KernelCE()(UnconstrainedKernel(MLP(4, 16, 3), 4).double(), path)
    chain = ChainProcess(GENERATORS["ring"])
    times = torch.zeros(4, dtype=torch.float64)
    path = chain.path(TimePair(times, times + 0.5), torch.Generator())
    with pytest.raises(InputError, match="clean data x1"):
        KernelCE()(BoundaryKernel(MLP(3, 16, 3), 3, Linear()), path)


def observed_path(process):
    """A batch in which some positions of every sequence may be observed."""
    times = TimePair(*torch.full((2, 64), R, dtype=torch.float64))
    g = seeded()
    x1, observed = DATA.sample((64,), g), RandomPositions(1.0).sample((64,), 2, g)
    return process.path(x1, times, g, observed=observed)


@pytest.mark.parametrize(
    "network",
    [
        Transformer(4, 2, 16, 1, 2, 16, 8),
        DiT(4, 2, 16, 1, 2),
        FlatMLP(4, 2, 16, 1),
    ],
    ids=lambda network: type(network).__name__,
)
def test_observed_positions_have_no_tangent(network):
    """The derivative is that of the generated positions: only their times are stepped."""
    for p in network.double().parameters():
        nn.init.normal_(p, std=0.3, generator=seeded())
    process = Masking(3)
    path = observed_path(process)
    path = path._replace(r=path.r.double(), t=torch.where(path.r < 1, T, 1.0).double())
    observed = path.r == 1
    assert (observed.any(-1, keepdim=True) & (path.x == process.token)).any()  # masks beside
    kernel = kernel_of(process, network)
    found = []

    def derivative(f, t):
        found.append(forward_mode(f, t))
        return found[-1]

    KernelResidual(RaoBlackwell(process), derivative)(kernel, path)
    h = 1e-6 * (path.r < 1).double()
    ahead, behind = (kernel.probs(path.x, path.r, path.t + step) for step in (h, -h))
    assert (found[0] - (ahead - behind) / 2e-6).abs().max() < 1e-7
    slope = ResidualKL()._at_x1(kernel, path)[1] - 1
    logs = [kernel.log_q(path.x, kernel(path.x, path.r, path.t + step)) for step in (h, -h)]
    finite = (logs[0] - logs[1]).gather(-1, path.x1[..., None])[..., 0] / 2e-6
    assert (slope - (path.t - path.r) * finite).abs().max() < 1e-7


def test_observed_positions_have_no_tangent_in_the_lagrangian_loss(monkeypatch):
    network = Transformer(3, 2, 16, 1, 2, 16, 8).double()
    for p in network.parameters():
        nn.init.normal_(p, std=0.3, generator=seeded())
    kernel = FlowMapKernel(network, 3)
    path = observed_path(OneHotFlow(3))
    r, t = path.r.double(), torch.where(path.r < 1, T, 1.0).double()
    path = path._replace(x=path.x.double(), r=r, t=t)
    assert ((r < 1).any(-1) & (r == 1).any(-1)).any()
    calls = []

    def record(f, t):
        calls.append(value_and_slope(f, t))
        return calls[-1]

    monkeypatch.setattr(self_distillation, "value_and_slope", record)
    LagrangianLoss()(kernel, path)
    h = 1e-6 * (r < 1).double()
    ahead, behind = (network(path.x, r, t + step).log_softmax(-1) for step in (h, -h))
    assert (calls[0][1] - (ahead - behind) / 2e-6).abs().max() < 1e-7
