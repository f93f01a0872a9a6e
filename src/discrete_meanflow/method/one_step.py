"""The default: a flow map in one step, distilled from its own diagonal.

Three stages on ``x_r = (1 - r) z + r e_{x1}``: cross-entropy ``-log q(x1 | x_r, r, r)``;
cross-entropy ``-log q(x | x_r, r, t)`` to draws x from the map that follows the diagonal's ODE;
distribution matching of the student's samples. Flow maps of one-hot vectors: arXiv:2602.16813,
arXiv:2604.09784; distribution matching: Yin et al. 2023, arXiv:2311.18828. Sampler: one step of the
map, or several.
"""

from discrete_meanflow.method.base import Method
from discrete_meanflow.method.flow_map import diagonal_bound, on_diagonal
from discrete_meanflow.objective import PairCrossEntropy
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import KernelSampler

METHODS = {
    "one-step": Method(
        "flow map distilled from teacher pairs, then matched to the teacher; the default",
        OneHotFlow,
        lambda process: PairCrossEntropy(),
        on_diagonal,
        KernelSampler.steps,
        steps=1,
        bound=diagonal_bound,
        distilled=True,
    ),
}
