import torch

from discrete_meanflow.data import Sequences
from discrete_meanflow.errors import InputError
from discrete_meanflow.path.base import Paths
from discrete_meanflow.process import (
    ObservedPositions,
    PathSample,
    RandomPositions,
    SequenceProcess,
)
from discrete_meanflow.times import OnDiagonal, TimeSampler


class DataPaths(Paths):
    """Clean sequences x1 from data, corrupted to ``x_r`` by a process.

    Args:
        process: the reference process.
        data: the sequences, over the alphabet of the process.
        times: the law of time pairs.
        conditioning: which positions are observed. A number is the fraction of sequences with
            ``RandomPositions``.
    """

    def __init__(
        self,
        process: SequenceProcess,
        data: Sequences,
        times: TimeSampler,
        conditioning: float | ObservedPositions = 0.0,
    ) -> None:
        super().__init__()
        if process.vocabulary != data.vocabulary:
            raise InputError(
                f"paths: the process has {process.vocabulary} symbols, the data {data.vocabulary}"
            )
        self.process: SequenceProcess = process
        self.data, self.times, self.length = data, times, data.length
        self.conditioning: ObservedPositions = (
            conditioning
            if isinstance(conditioning, ObservedPositions)
            else RandomPositions(conditioning)
        )
        self.conditioned = self.conditioning.fraction > 0
        self.flow_map_ends = isinstance(times, OnDiagonal) and times.fraction == 1

    def sample(self, shape: tuple[int, ...], g: torch.Generator, draws: int = 1) -> PathSample:
        times, x1 = self.times.sample(shape, g), self.data.sample(shape, g)
        observed = None
        if self.conditioned:
            observed = self.conditioning.sample(shape, self.length, g)
        return self.process.path(x1, times, g, draws, observed)

    def extra_repr(self) -> str:
        return f"times={self.times!r}, conditioning={self.conditioning!r}"
