import torch
from torch import Tensor

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.errors import InputError
from discrete_meanflow.path.base import Paths
from discrete_meanflow.path.data import DataPaths
from discrete_meanflow.process import OneHotFlow, PathSample
from discrete_meanflow.types import Times

NOISE_LEVELS = (0.01, 0.99)  # range of s on the decoding clock


class MatchingPaths(Paths):
    """Starts of the student, and the noise that is added to its samples.

    A path holds noise x at r = 0 with t = 1, fresh noise z' in ``y`` and a noise level s. The
    student maps x to a sample; distribution matching compares teacher and fake network at
    ``x_s = (1 - s) z' + s e``.

    Args:
        paths: the teacher's paths: records and observed positions.
    """

    data_ends = False

    def __init__(self, paths: DataPaths) -> None:
        super().__init__()
        if not isinstance(paths.process, OneHotFlow):
            raise InputError("distribution matching: needs the process OneHotFlow")
        if paths.process.minibatch_ot:
            raise InputError(
                "distribution matching: needs noise that is independent of the data, so "
                "minibatch_ot=0"
            )
        self.process: OneHotFlow = paths.process
        self.data, self.length = paths.data, paths.length
        self.conditioning, self.conditioned = paths.conditioning, paths.conditioned
        self.clock = DecodingClock(self.process.vocabulary)

    def sample(self, shape: tuple[int, ...], g: torch.Generator, draws: int = 1) -> PathSample:
        """Starts at r = 0; observed positions hold their symbols, at r = 1."""
        x1 = self.data.sample(shape, g)
        observed = torch.zeros(*shape, 1, dtype=torch.bool, device=g.device)
        if self.conditioned:
            observed = self.conditioning.sample(shape, self.length, g)
        s, r = self._levels(shape, g, observed), observed.float()
        x = self.process.corrupt(x1, r, g)
        noise = self.process.source(tuple(x1.shape), g)
        y = noise[..., None, :].expand(*noise.shape[:-1], draws, -1)
        unknown = torch.empty(*x.shape, 0, device=x.device)
        return PathSample(x, r, torch.ones_like(r), y, unknown, x1, s)

    def _levels(self, shape: tuple[int, ...], g: torch.Generator, observed: Tensor) -> Times:
        """Noise levels s, uniform on the decoding clock; 1 where a position is observed."""
        low, high = NOISE_LEVELS
        level = torch.rand(*shape, 1, generator=g, device=g.device)
        return torch.where(observed, 1.0, self.clock.inverse(low + (high - low) * level))

    def extra_repr(self) -> str:
        return f"conditioning={self.conditioning!r}"
