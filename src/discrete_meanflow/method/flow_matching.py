"""Flow matching of one-hot vectors: Lipman et al. 2023, arXiv:2210.02747; Liu et al. 2023,
arXiv:2209.03003.

The path ``x_r = (1 - r) z + r e_{x1}`` has the velocity ``E[e_{x1} - x_r | x_r]/(1 - r)``, so the
network learns ``q = E[e_{x1} | x_r]``. Loss: ``-log q(x1 | x_r)``. Sampler: the ODE
``dx/dr = (q - x)/(1 - r)`` by a solver of second order; ``ODESampler(kernel, k, order=1)`` is
Euler's.

It differs from the papers in the loss: cross-entropy instead of squares, and times on the decoding
clock.
"""

from collections.abc import Sequence

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.method.base import MANY, Method
from discrete_meanflow.method.flow_map import diagonal_bound, on_diagonal
from discrete_meanflow.objective import PosteriorRegression
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import LogitProcessor, ODESampler, Sampler


def ode(
    kernel: Kernel, steps: int, processors: Sequence[LogitProcessor], guidance: float
) -> Sampler:
    """The second-order solver."""
    return ODESampler(kernel, steps, processors)


METHODS = {
    "flow-matching": Method(
        "flow matching (Lipman et al. 2023, arXiv:2210.02747) of one-hot vectors",
        OneHotFlow,
        lambda process: PosteriorRegression(),
        on_diagonal,
        ode,
        MANY,
        bound=diagonal_bound,
        guided=False,
    ),
}
