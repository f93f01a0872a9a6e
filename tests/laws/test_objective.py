"""Laws of every objective: unbiased targets, and a minimum at the exact kernel."""

import pytest
import torch
from torch import nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import BoundaryKernel, Kernel
from discrete_meanflow.network import MLP
from discrete_meanflow.objective import (
    BoundaryPenalty,
    ExactExpectation,
    KernelResidual,
    ModelExpectation,
    SampledRate,
    TransitionLikelihood,
    Weighted,
    finite_difference,
)
from discrete_meanflow.process import ChainProcess, PathSample, SimulatedProcess
from discrete_meanflow.schedule import Exponential
from discrete_meanflow.simplex import categorical
from discrete_meanflow.state import Discrete
from dmf_reproduction.bulk_queue import BulkQueue
from extra_chains import random_dense
from problems import seeded

U = random_dense(3, seeded(5), 4.0)
RING = ChainProcess(U)


class TiltedExactKernel(Kernel):
    """The exact kernel of a constant chain, its columns tilted by ``exp(theta)`` and renormalised.

    theta = 0 is the truth; the derivative there probes every direction on the simplex.
    """

    def __init__(self, generator, states):
        super().__init__(nn.Identity(), Discrete(states))
        self.u = generator.matrix
        self.theta = nn.Parameter(torch.zeros(states, states, dtype=torch.float64))

    def law(self, x, logits, r, t):
        K = torch.linalg.matrix_exp((t - r)[..., None, None] * self.u)
        tilted = K * torch.exp((t - r)[..., None, None] * self.theta)
        column = x[..., None, None].expand(*x.shape, len(self.u), 1)
        law = tilted.gather(-1, column)[..., 0]
        return law / law.sum(-1, keepdim=True)

    def forward(self, x, r, t):
        return torch.empty(0)

    def transport(self, x, logits, r, t, g):
        return categorical(self.law(x, logits, r, t), g)


def enumerated(process, r=0.2, t=0.7):
    """All (x_r, x_t) with their probabilities: expectations by enumeration, not by sampling."""
    n = process.states
    x, y = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    x, y = x.flatten(), y.flatten()
    R, T = (torch.full((n * n,), s, dtype=torch.float64) for s in (r, t))
    law = process.law(x, R, T)
    path = PathSample(x, R, T, y[:, None], law, x.new_empty(n * n, 0), T)
    return path, law.gather(-1, y[:, None])[:, 0] / n


def expected_gradient(objective, kernel, process):
    path, weight = enumerated(process)
    total = 0.0
    for i in range(len(weight)):
        one = PathSample(*(part[i : i + 1] for part in path))
        total = total + weight[i] * objective(kernel, one)
    return torch.autograd.grad(total, list(kernel.parameters()), allow_unused=True)


OBJECTIVES = {
    "single sample": KernelResidual(SampledRate(RING)),
    "single sample, finite difference": KernelResidual(SampledRate(RING), finite_difference),
    "exact expectation": KernelResidual(ExactExpectation(RING)),
    "model expectation": KernelResidual(ModelExpectation(RING)),
    "transition likelihood": TransitionLikelihood(),
    "boundary penalty": BoundaryPenalty(3),
    "weighted": Weighted((1.0, KernelResidual(SampledRate(RING))), (10.0, BoundaryPenalty(3))),
}
every_objective = pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)


@every_objective
def test_the_exact_kernel_is_stationary(objective):
    kernel = TiltedExactKernel(U, 3)
    (gradient,) = expected_gradient(objective, kernel, RING)
    tolerance = (
        1e-6
        if "finite" in str(objective) or objective is OBJECTIVES["single sample, finite difference"]
        else 1e-10
    )
    assert gradient.abs().max() < tolerance


@pytest.mark.parametrize("name", [n for n in OBJECTIVES if n != "boundary penalty"])
def test_a_wrong_kernel_is_not_stationary(name):
    kernel = TiltedExactKernel(U, 3)
    with torch.no_grad():
        kernel.theta[0, 1] = 0.3
    (gradient,) = expected_gradient(OBJECTIVES[name], kernel, RING)
    assert gradient.abs().max() > 1e-3


def test_sampled_targets_are_unbiased():
    path, weight = enumerated(RING)
    sampled, exact = SampledRate(RING)(None, path), ExactExpectation(RING)(None, path)
    for x in range(3):
        here = path.x == x
        mean = (sampled[here] * (3 * weight[here])[:, None]).sum(0)
        assert (mean - exact[here][0]).abs().max() < 1e-10


def test_more_draws_vary_less():
    n = 20_000
    x = torch.zeros(n, dtype=torch.long)
    r, t = torch.zeros(n, dtype=torch.float64), torch.full((n,), 0.5, dtype=torch.float64)
    law = RING.law(x, r, t)
    spread = []
    for draws in (1, 8):
        path = PathSample(x, r, t, categorical(law, seeded(), draws), law, x.new_empty(n, 0), t)
        spread.append(SampledRate(RING, draws)(None, path).var(0).sum().item())
    assert 7 < spread[0] / spread[1] < 9.2


def test_forward_mode_is_the_finite_difference_inside_the_loss():
    kernel = BoundaryKernel(MLP(3, 16, 3), 3, Exponential(6.0)).double()
    path, _ = enumerated(RING)
    exact, finite = (
        objective(kernel, path)
        for objective in (
            OBJECTIVES["single sample"],
            OBJECTIVES["single sample, finite difference"],
        )
    )
    assert abs(exact.item() - finite.item()) < 1e-7
    for a, b in zip(
        torch.autograd.grad(exact, list(kernel.parameters())),
        torch.autograd.grad(finite, list(kernel.parameters())),
        strict=True,
    ):
        assert (a - b).abs().max() < 1e-6


def test_no_gradient_flows_through_the_models_own_target():
    kernel = BoundaryKernel(MLP(3, 16, 3), 3, Exponential(6.0)).double()
    path, _ = enumerated(RING)
    assert not ModelExpectation(RING)(kernel, path).requires_grad


def test_weights_add_up():
    kernel = BoundaryKernel(MLP(3, 16, 3), 3, Exponential(6.0)).double()
    path, _ = enumerated(RING)
    a, b = OBJECTIVES["single sample"], OBJECTIVES["transition likelihood"]
    total = Weighted((0.5, a), (2.0, b))(kernel, path)
    assert abs(total.item() - 0.5 * a(kernel, path).item() - 2 * b(kernel, path).item()) < 1e-12


def test_the_boundary_penalty_is_zero_by_construction_only():
    path, _ = enumerated(RING)
    kernel = BoundaryKernel(MLP(3, 16, 3), 3, Exponential(6.0)).double()
    assert BoundaryPenalty(3)(kernel, path).item() == 0


def test_a_process_without_a_matrix_trains_by_sampling_only():
    queue = SimulatedProcess(BulkQueue(), 64)
    SampledRate(queue, 4)
    for estimator in (ExactExpectation, ModelExpectation):
        with pytest.raises(InputError, match="needs a generator matrix"):
            estimator(queue)


def test_bad_parameters_are_rejected():
    with pytest.raises(InputError, match="at least one draw"):
        SampledRate(RING, 0)
    with pytest.raises(InputError, match="weights >= 0"):
        Weighted((-1.0, OBJECTIVES["single sample"]))
