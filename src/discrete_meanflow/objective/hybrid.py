import math

from discrete_meanflow.errors import InputError
from discrete_meanflow.objective.base import Objective
from discrete_meanflow.objective.weighted import Weighted


def hybrid(residual: Objective, cross_entropy: Objective, weight: float) -> Objective:
    """``L_KR + lambda L_CE``; lambda = 0 is the residual alone, infinity the cross-entropy."""
    if not weight >= 0:
        raise InputError(f"hybrid objective: lambda must be >= 0 (or infinity), got {weight:g}")
    if weight == 0:
        return residual
    if math.isinf(weight):
        return cross_entropy
    return Weighted((1.0, residual), (weight, cross_entropy))
