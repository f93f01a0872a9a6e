"""Shortcut models: Frans et al. 2024, arXiv:2410.12557.

Flow matching on the diagonal, and on a quarter of the batch one step that equals two half steps,
``X_{r,t} = X_{s,t}(X_{r,s})``, with step sizes that are powers of 1/2. Sampler: one step of the
map, or several.

They differ from the paper in the loss, divergences instead of squares, and in the steps, which are
powers of 1/2 on the decoding clock and start anywhere.
"""

from discrete_meanflow.method.base import Method
from discrete_meanflow.method.flow_map import diagonal_bound
from discrete_meanflow.objective import shortcut
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.times import DyadicTimes

METHODS = {
    "shortcut": Method(
        "shortcut models (Frans et al. 2024, arXiv:2410.12557), in KL form",
        OneHotFlow,
        lambda process: shortcut(),
        DyadicTimes,
        KernelSampler.steps,
        steps=1,
        bound=diagonal_bound,
    ),
}
