"""Chi-square tests of drawn states against a law."""

import torch
from scipy.stats import chi2
from torch import Tensor

from problems import ALPHA


def passes_chi_square(y: Tensor, law: Tensor) -> bool:
    """Whether the draws y can come from the law; states with few expected draws are pooled."""
    expected = law.double() * y.numel()
    observed = torch.bincount(y.flatten(), minlength=len(law)).double()
    rare = expected < 10
    pooled = [
        torch.cat([v[~rare], v[rare].sum()[None]]) if rare.any() else v
        for v in (observed, expected)
    ]
    seen, wanted = (v[pooled[1] > 0] for v in pooled)
    if pooled[0][pooled[1] == 0].sum() > 0:
        return False
    statistic = ((seen - wanted) ** 2 / wanted).sum().item()
    return bool(chi2.sf(statistic, max(1, len(wanted) - 1)) > ALPHA)
