"""Consistency models: Song et al. 2023, arXiv:2303.01469; Song & Dhariwal 2023, arXiv:2310.14189.

Maps ``q_{r,1}(x_r)`` to time 1 that agree at neighbouring times r < s of a path. Loss:
``KL(stopgrad X_{s,1}(x_s), q_{r,1}(x_r))``, with ever shorter steps from r to s. Sampler: one map,
or several from ever later starts with fresh noise in between.

They differ from the papers in the loss, a divergence instead of a distance, and have targets from
the same weights. Only maps to time 1 are trained, so there is no bound of the likelihood.
"""

from collections.abc import Sequence

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.method.base import Method
from discrete_meanflow.objective import ConsistencyLoss, Objective, Phases
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import KernelSampler, LogitProcessor, Sampler
from discrete_meanflow.times import ToEnd

INTERVALS = (8, 16, 32, 64)  # of the decoding clock, in turn


def restarts(
    kernel: Kernel, steps: int, processors: Sequence[LogitProcessor], guidance: float
) -> Sampler:
    """Maps to time 1 from ever later starts."""
    return KernelSampler.restarts(kernel, steps, processors, guidance)


def growing_consistency(states: int) -> Objective:
    """Consistency training with ever shorter steps between the two times."""
    return Phases(*((1 / len(INTERVALS), ConsistencyLoss(states, n)) for n in INTERVALS))


METHODS = {
    "consistency": Method(
        "consistency training (Song et al. 2023, arXiv:2303.01469), in KL form",
        OneHotFlow,
        lambda process: growing_consistency(process.states),
        ToEnd,
        restarts,
        steps=1,
    ),
}
