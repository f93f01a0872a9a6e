import torch
from torch import Tensor

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective.base import Objective
from discrete_meanflow.objective.cross_entropy import nll
from discrete_meanflow.process import PathSample


class OnCouples(Objective):
    """``-log q_{r,r}(x1 | X_r)`` on the first half of a batch, ``-log q_{r,t}(x | X_r)`` on its
    couples, each averaged.

    Cross-entropy over independent (z, x1) would find the marginals of the data. Over couples x is
    drawn from the flow map's own law, at t = 1 a function of X_r: so that is what it finds.
    """

    draws = 0
    soft = True

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        half = len(path.x) // 2
        t = torch.cat([path.r[:half], path.t[half:]])  # one look at the network serves both
        found = nll(kernel, path, t)
        return found[:half].mean() + found[half:].mean()
