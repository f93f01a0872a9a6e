import torch

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.errors import InputError
from discrete_meanflow.path.base import Paths
from discrete_meanflow.path.data import DataPaths
from discrete_meanflow.process import OneHotFlow, PathSample

NOISE_LEVELS = (0.01, 0.99)  # range of s on the decoding clock


class MatchingPaths(Paths):
    """Starts of the student, and the noise that is added to its samples.

    A path holds a start x at r with t = 1, fresh noise z' in ``y`` and a noise level s. The student
    maps x to a sample; distribution matching compares teacher and fake network at
    ``x_s = (1 - s) z' + s e``. Most starts are pure noise, r = 0. The others are noised records,
    ``x = (1 - r) z + r e_{x1}``, so that the last of several steps is matched too (as in the
    multi-step generator of DMD2, arXiv:2405.14867).

    Args:
        paths: the teacher's paths: records and observed positions.
        full_interval_fraction: fraction of the starts at r = 0.
    """

    def __init__(self, paths: DataPaths, full_interval_fraction: float = 0.75) -> None:
        super().__init__()
        if not isinstance(paths.process, OneHotFlow):
            raise InputError("distribution matching: needs the process OneHotFlow")
        if paths.process.minibatch_ot:
            raise InputError(
                "distribution matching: needs noise that is independent of the data, so "
                "minibatch_ot=0"
            )
        if not 0 <= full_interval_fraction <= 1:
            raise InputError(
                "distribution matching: the fraction of starts at r = 0 must lie in [0, 1], got "
                f"{full_interval_fraction:g}"
            )
        self.process: OneHotFlow = paths.process
        self.data, self.length = paths.data, paths.length
        self.conditioning, self.conditioned = paths.conditioning, paths.conditioned
        self.full_interval_fraction = full_interval_fraction
        self.clock = DecodingClock(self.process.vocabulary)

    def sample(self, shape: tuple[int, ...], g: torch.Generator, draws: int = 1) -> PathSample:
        x1 = self.data.sample(shape, g)
        u, level, later = (torch.rand(*shape, 1, generator=g, device=g.device) for _ in range(3))
        low, high = NOISE_LEVELS
        s = self.clock.inverse(low + (high - low) * level)
        r = self.clock.inverse(later).masked_fill(u < self.full_interval_fraction, 0)
        t = torch.ones_like(r)
        if self.conditioned:
            observed = self.conditioning.sample(shape, self.length, g)
            r, s, t = (torch.where(observed, 1.0, time) for time in (r, s, t))
        x = self.process.corrupt(x1, r, g)
        noise = self.process.source(tuple(x1.shape), g)
        y = noise[..., None, :].expand(*noise.shape[:-1], draws, -1)
        return PathSample(x, r, t, y, torch.empty(*x.shape, 0, device=x.device), x1, s)

    def extra_repr(self) -> str:
        return (
            f"full_interval_fraction={self.full_interval_fraction:g}, "
            f"conditioning={self.conditioning!r}"
        )
