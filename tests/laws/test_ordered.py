"""Laws of ordered symbols."""

import torch
from hypothesis import given, settings, strategies as st

from discrete_meanflow.kernel import ExactPosterior, FlowMapKernel
from discrete_meanflow.ordered import LENGTH_SCALE, NUGGET, SCALE, embedding
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import ODESampler
from discrete_meanflow.simplex import delta
from discrete_meanflow.state import Continuous
from problems import LAWS, seeded
from statistics_of_draws import passes_chi_square

N = 7
COUNTS = st.lists(st.integers(0, N), min_size=1, max_size=4).map(tuple)


@given(COUNTS)
@settings(max_examples=30, deadline=None)
def test_near_symbols_have_near_points(counts):
    points = Continuous(N, counts).symbols(torch.device("cpu")).double()  # rows are phi(k)
    k = torch.arange(N)
    for count, phi in zip(counts, points, strict=True):
        likeness = torch.eye(N, dtype=torch.float64)
        smooth = torch.exp(-((k[:count, None] - k[:count]) ** 2) / (2 * LENGTH_SCALE**2))
        own = torch.eye(count, dtype=torch.float64)
        likeness[:count, :count] = SCALE**2 * ((1 - NUGGET) * smooth + NUGGET * own)
        assert torch.allclose(phi @ phi.T, likeness, atol=1e-4)
        distances = torch.cdist(phi[:count], phi[:count])
        assert (distances.diff(dim=1).triu(1) >= 0).all()  # farther symbols have farther points


@given(COUNTS)
@settings(max_examples=30, deadline=None)
def test_networks_see_white_noise(counts):
    """``A (A^-1 w) = w``: noise has one variance in all directions that a network sees."""
    w = torch.randn(5, len(counts), N, generator=seeded())
    space = Continuous(N, counts)
    assert torch.allclose(space.network_input(space.noise(w), w.dtype), w, atol=1e-4)


def test_without_an_order_nothing_changes():
    plain, unordered = OneHotFlow(N), OneHotFlow(N, ordered=(0, 0))
    x1, r = torch.randint(N, (40, 2), generator=seeded()), torch.full((40, 1), 0.3)
    assert torch.allclose(*(p.corrupt(x1, r, seeded(1)) for p in (plain, unordered)))


def test_points_with_symbols_that_are_not_ordered_are_corners():
    points = embedding((4,), N, torch.device("cpu"))[0].mT
    assert torch.equal(points[4:], torch.eye(N)[4:])


def test_the_likelihood_is_that_of_the_noise():
    """``x_r - r e_k`` is normal with covariance ``(1 - r)^2 (A^T A)^-1``."""
    process, r = OneHotFlow(4, ordered=(3, 0)), 0.4
    x = process.corrupt(torch.tensor([[1, 2]]).expand(20, 2), torch.full((20, 1), r), seeded())
    density = process.likelihood(x, torch.full((20, 1), r))
    corners = delta(torch.arange(4), 4, torch.float64)
    for d, a in enumerate(process.space.symbols(x.device).mT.double()):
        normal = torch.distributions.MultivariateNormal(
            torch.zeros(4, dtype=torch.float64), precision_matrix=a.mT @ a / (1 - r) ** 2
        )
        log = torch.stack([normal.log_prob(x[:, d].double() - r * e) for e in corners], -1)
        expected = (log - log.amax(-1, keepdim=True)).exp()
        assert torch.allclose(density[:, d], expected, atol=1e-6)


def test_the_exact_flow_generates_the_law():
    law = LAWS["bigram"]
    process = OneHotFlow(3, ordered=(3,))
    kernel = FlowMapKernel(ExactPosterior(law, process), 3, ordered=(3,))
    start = process.source((4000, 4), seeded()).double()
    tokens = ODESampler(kernel, 100).sample(start, seeded())
    index = (tokens[:, :2] * torch.tensor([3, 1])).sum(-1)
    assert passes_chi_square(index, law.pair_marginals()[0].flatten())
