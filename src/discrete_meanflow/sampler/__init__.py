"""Generation: compose a kernel along a time grid or over groups of positions.

One-step generation is the grid (0, 1).
"""

from discrete_meanflow.sampler.autoregressive import (
    AutoregressiveSampler as AutoregressiveSampler,
)
from discrete_meanflow.sampler.base import Sampler as Sampler
from discrete_meanflow.sampler.cached import CachedSampler as CachedSampler
from discrete_meanflow.sampler.chunk import chunk_size as chunk_size, generate as generate
from discrete_meanflow.sampler.confidence import ConfidenceSampler as ConfidenceSampler
from discrete_meanflow.sampler.kernel import KernelSampler as KernelSampler
from discrete_meanflow.sampler.logits import (
    LogitProcessor as LogitProcessor,
    forbid as forbid,
    temperature as temperature,
    top_p as top_p,
)
from discrete_meanflow.sampler.ode import ODESampler as ODESampler
from discrete_meanflow.sampler.refining import RefiningSampler as RefiningSampler
from discrete_meanflow.sampler.two_way_ode import TwoWayODE as TwoWayODE
from discrete_meanflow.sampler.unmasking import (
    UnmaskingSampler as UnmaskingSampler,
    bisection as bisection,
)
