"""Properties of every distribution of sequences."""

import itertools

import pytest
import torch

from discrete_meanflow.data import BigramChain, IndependentCategorical, TokenArray, tokens
from discrete_meanflow.errors import InputError
from discrete_meanflow.metric import marginal_tv, pair_tv
from problems import LAWS, seeded
from statistics_of_draws import passes_chi_square

every_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


def all_sequences(law):
    return torch.tensor(list(itertools.product(range(law.vocabulary), repeat=law.length)))


@every_law
def test_law_probabilities_sum_to_one(law):
    assert abs(law.log_prob(all_sequences(law)).exp().sum().item() - 1) < 1e-12


@every_law
def test_law_marginals_are_sums_of_the_joint(law):
    x = all_sequences(law)
    p = law.log_prob(x).exp()
    for d, token in itertools.product(range(law.length), range(law.vocabulary)):
        assert abs(p[x[:, d] == token].sum() - law.marginals()[d, token]) < 1e-12
    for d in range(law.length - 1):
        for a, b in itertools.product(range(law.vocabulary), repeat=2):
            here = (x[:, d] == a) & (x[:, d + 1] == b)
            assert abs(p[here].sum() - law.pair_marginals()[d, a, b]) < 1e-12


@every_law
def test_token_array_has_the_marginals_of_its_records(law, monkeypatch):
    """Of all sequences, each as often as its probability says, in several chunks."""
    x = all_sequences(law)
    counts = (50 * law.log_prob(x).exp()).ceil().long()
    data = TokenArray(x.repeat_interleave(counts, 0).byte(), law.vocabulary)
    monkeypatch.setattr(tokens, "CHUNK_TOKENS", 16 * law.length)
    p = counts.double() / counts.sum()
    for d, a in itertools.product(range(law.length), range(law.vocabulary)):
        assert abs(p[x[:, d] == a].sum() - data.marginals()[d, a]) < 1e-12
    for d in range(law.length - 1):
        for a, b in itertools.product(range(law.vocabulary), repeat=2):
            here = (x[:, d] == a) & (x[:, d + 1] == b)
            assert abs(p[here].sum() - data.pair_marginals()[d, a, b]) < 1e-12
    assert marginal_tv(data.tokens, data) == pair_tv(data.tokens, data) == 0


@every_law
def test_law_posteriors_are_sums_of_the_joint(law):
    """Compares with enumeration for random, partial, certain and no evidence."""
    x = all_sequences(law)
    random = torch.rand(5, law.length, law.vocabulary, generator=seeded(), dtype=torch.float64)
    observed = law.sample((5,), seeded())
    certain = torch.nn.functional.one_hot(observed, law.vocabulary).double()
    partial = torch.where(torch.rand(5, law.length, 1, generator=seeded()) < 0.5, certain, 1.0)
    for evidence in (random, partial, certain, torch.ones_like(random)):
        weight = evidence[:, torch.arange(law.length), x].prod(-1) * law.log_prob(x).exp()
        joint = weight / weight.sum(-1, keepdim=True)  # (5, all sequences)
        exact = torch.einsum("bs,sdv->bdv", joint, torch.nn.functional.one_hot(x).double())
        assert (law.posterior(evidence) - exact).abs().max() < 1e-12


@every_law
def test_law_samples_follow_the_joint_law(law):
    x = law.sample((200, 100), seeded())
    assert x.shape == (200, 100, law.length)
    powers = law.vocabulary ** torch.arange(law.length - 1, -1, -1)
    assert passes_chi_square((x * powers).sum(-1), law.log_prob(all_sequences(law)).exp())


@pytest.mark.parametrize("kind", [IndependentCategorical, BigramChain])
def test_dirichlet_laws_are_determined_by_their_seed(kind):
    a, b, c = (kind.dirichlet(4, 8, 0.1, seed) for seed in (0, 0, 1))
    assert torch.equal(a.marginals(), b.marginals())
    assert not torch.equal(a.marginals(), c.marginals())
    assert repr(a) == repr(b) != repr(c)


def test_dirichlet_laws_equal_the_published_ones():
    """Results identify a law by its generator and seed, so its numbers must not change."""
    assert IndependentCategorical.dirichlet(4, 8).marginals()[0].tolist() == pytest.approx(FIRST)
    assert BigramChain.dirichlet(4, 8).rows[0].tolist() == pytest.approx(FIRST)


FIRST = [0.07617485999120352, 9.240845924160295e-14, 0.8770560687186483, 0.04676907129005559]


def test_repr_differs_for_different_data():
    """A resumed run compares the representation of its data."""
    a, b = (TokenArray(torch.tensor([[0, k]]), 3) for k in (1, 2))
    assert repr(a) != repr(b)
    a, b = (IndependentCategorical(torch.tensor([[p, 1 - p]])) for p in (0.5, 0.25))
    assert repr(a) != repr(b)


def test_token_array_samples_with_replacement():
    data = TokenArray(torch.tensor([[0, 1], [2, 2]]), 3)
    x = data.sample((5000,), seeded())
    assert passes_chi_square(x[:, 0], torch.tensor([0.5, 0, 0.5]))
    assert set(map(tuple, x.tolist())) == {(0, 1), (2, 2)}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TokenArray(torch.tensor([[0, 5]]), 3), "token 5 in record 0, position 1"),
        (lambda: TokenArray(torch.tensor([[0, -1]]), 3), "outside the alphabet 0 .. 2"),
        (
            lambda: TokenArray(torch.tensor([[0, 3]]), 3),
            "the mask, which clean data cannot contain",
        ),
        (lambda: TokenArray(torch.empty(0, 4, dtype=torch.long), 3), "the data set is empty"),
        (lambda: TokenArray(torch.empty(4, 0, dtype=torch.long), 3), "at least one position"),
        (lambda: TokenArray(torch.zeros(2, 2), 3), "must be integers"),
        (lambda: TokenArray(torch.zeros(4, dtype=torch.long), 3), "shape \\(records, length\\)"),
        (lambda: TokenArray(torch.zeros(2, 2, dtype=torch.long), 1), "at least 2 symbols, got 1"),
        (lambda: IndependentCategorical.dirichlet(1, 4), "at least 2 symbols"),
        (lambda: IndependentCategorical.dirichlet(4, 0), "at least one position"),
        (lambda: BigramChain.dirichlet(4, 0), "at least one position"),
        (lambda: IndependentCategorical(torch.tensor([[0.5, 0.6]])), "sum to 1"),
        (lambda: IndependentCategorical.dirichlet(4, 8, -1.0), "concentration"),
        (lambda: IndependentCategorical.dirichlet(4, 8, float("inf")), "concentration"),
        (lambda: IndependentCategorical.dirichlet(4, -1), "at least one position"),
        (lambda: BigramChain.dirichlet(0, 4), "at least 2 symbols"),
        (lambda: IndependentCategorical(torch.tensor([0.5, 0.5])), "needs 2 axes"),
        (lambda: IndependentCategorical(torch.tensor([[torch.nan, 1.0]])), "sum to 1"),
        (lambda: BigramChain(torch.tensor([0.5, 0.5]), torch.eye(3), 4), "as many rows"),
        (lambda: TokenArray([[0, 1], [1]], 3), "cannot read tokens"),
    ],
)
def test_bad_data_raises_input_error(make, message):
    with pytest.raises(InputError, match=message):
        make()
