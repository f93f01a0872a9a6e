"""DeFoG: Qin et al. 2025, arXiv:2410.04263, on sequences.

The mixture path and a denoiser q of x1. Loss: ``-log q(x1 | x_r)``. Sampler: Euler steps of the
rates ``E_q[R* + eta p_r(y | x1) + omega delta_{x1}(y)/(Z p_r(x | x1))]``, where
``R* = relu(dp_r(y | x1)/dr - dp_r(x | x1)/dr)/(Z p_r(x | x1))``. Times of training and steps are
distorted by ``f(r) = 2r - r^2``.

It differs from the paper: eta and omega, which the paper searches for each data set, are 0
(``euler(Redraw(eta), TargetGuidance(omega), distortion=polydec)`` sets them), and noise is uniform
instead of the marginals of the data.
"""

from discrete_meanflow.method.base import MANY, Method
from discrete_meanflow.method.jump_process import below_one, bridge, euler, path_bound
from discrete_meanflow.objective import PosteriorRegression
from discrete_meanflow.process import Uniform
from discrete_meanflow.schedule import Distorted, polydec

METHODS = {
    "defog": Method(
        "DeFoG (Qin et al. 2025, arXiv:2410.04263): uniform noise, distorted times, CE",
        Uniform,
        lambda process: PosteriorRegression(),
        lambda vocabulary: Distorted(below_one(vocabulary), polydec),
        euler(distortion=polydec),
        MANY,
        bridge,
        path_bound,
    ),
}
