"""Rare symbols are drawn as often as they should be.

Float32 Gumbel noise, ``-log(1e-10 - log(u + 1e-10))``, truncates their tail, which lowers the
entropy of samples and flatters their likelihood under a judge.
"""

import torch

from discrete_meanflow.simplex import categorical
from problems import seeded
from statistics_of_draws import passes_chi_square

TAILS, EACH, DRAWS = 1000, 1e-6, 10**7


def test_ten_million_draws_keep_a_thousand_tails_of_one_in_a_million():
    law = torch.full((TAILS + 1,), EACH)  # float32, as networks give it
    law[0] = 1 - TAILS * EACH
    y = categorical(law, seeded(), DRAWS)
    counts = torch.bincount(y, minlength=TAILS + 1)[1:].double()
    expected = DRAWS * EACH
    assert abs(counts.sum() / (TAILS * expected) - 1) < 5.5 / (TAILS * expected) ** 0.5
    assert counts.min() > 0
    assert passes_chi_square(y, law.double() / law.double().sum())
