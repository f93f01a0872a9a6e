"""CTMC flows: Campbell et al. 2024, arXiv:2402.04997; tau-leaping: Campbell et al. 2022,
arXiv:2205.14987.

Masks and a denoiser q of x1. Loss: ``-log q(x1 | x_r)``. Rates:
``(q(y | x) - delta_x(y))/(1 - r)`` plus noise in detailed balance: a symbol is masked again at
rate eta, and a mask becomes y at the additional rate ``eta q(y) r/(1 - r)``. Sampler: tau-leaping
with at most one jump of a position per step. The last step masks nothing.
"""

from discrete_meanflow.kernel import DetailedBalance
from discrete_meanflow.method.base import MANY, Method
from discrete_meanflow.method.jump_process import below_one, bridge, euler, path_bound
from discrete_meanflow.objective import PosteriorRegression
from discrete_meanflow.process import Masking

ETA = 1.0  # stochasticity

METHODS = {
    "campbell": Method(
        "CTMC flows (Campbell et al. 2024, arXiv:2402.04997): masks, stochastic Euler steps",
        Masking,
        lambda process: PosteriorRegression(),
        below_one,
        euler(DetailedBalance(ETA)),
        MANY,
        bridge,
        path_bound,
    ),
}
