import torch
from torch import Tensor

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.errors import InputError
from discrete_meanflow.path.base import Paths
from discrete_meanflow.path.data import DataPaths
from discrete_meanflow.path.teacher_pairs import TeacherPairs
from discrete_meanflow.process import OneHotFlow, PathSample
from discrete_meanflow.types import Times

NOISE_LEVELS = (0.01, 0.99)  # range of s on the decoding clock


class MatchingPaths(Paths):
    """Starts of the student, and the noise that is added to its samples.

    A path holds a start x at r with t = 1, fresh noise z' in ``y`` and a noise level s. The student
    maps x to a sample; distribution matching compares teacher and fake network at
    ``x_s = (1 - s) z' + s e``. Most starts are pure noise, r = 0. The others are states X_r inside
    the teacher's trajectories, so that the last of several steps is matched where it starts (as
    DMD2, arXiv:2405.14867, does by simulating its generator's steps).

    Args:
        paths: the teacher's paths: records and observed positions.
        pairs: the teacher pairs, whose starts at r > 0 are used. Without any, all starts are noise.
        full_interval_fraction: fraction of the starts at r = 0.
    """

    def __init__(
        self, paths: DataPaths, pairs: TeacherPairs, full_interval_fraction: float = 0.75
    ) -> None:
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
        inside = pairs.times[:, 0] > 0
        self.inside = pairs.subset(inside) if bool(inside.any()) else None
        self.full_interval_fraction = full_interval_fraction if self.inside is not None else 1.0
        self.clock = DecodingClock(self.process.vocabulary)

    def sample(self, shape: tuple[int, ...], g: torch.Generator, draws: int = 1) -> PathSample:
        path = self._from_noise(shape, g, draws)
        if self.inside is None:
            return path
        later = self.inside.sample(shape, g)
        u = torch.rand(*shape, 1, generator=g, device=g.device)
        is_later = u >= self.full_interval_fraction  # (*batch, 1)
        observed = later.r == 1
        ends = {
            "x": torch.where(is_later[..., None], later.x, path.x),
            "r": torch.where(is_later, later.r, path.r),
            "t": torch.ones_like(later.r + path.t),
            "x1": torch.where(is_later, later.x1, path.x1),
            "s": torch.where(is_later, self._levels(shape, g, observed), path.s),
        }
        return path._replace(**ends)

    def _from_noise(self, shape: tuple[int, ...], g: torch.Generator, draws: int) -> PathSample:
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
        return (
            f"full_interval_fraction={self.full_interval_fraction:g}, "
            f"conditioning={self.conditioning!r}"
        )
