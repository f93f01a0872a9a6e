import torch

from discrete_meanflow.path.base import Paths
from discrete_meanflow.process import ChainProcess, PathSample, SimulatedProcess
from discrete_meanflow.times import TimeSampler


class ChainPaths(Paths):
    """Paths of a finite or simulated chain, started from its initial law."""

    def __init__(self, process: ChainProcess | SimulatedProcess, times: TimeSampler) -> None:
        super().__init__()
        self.process: ChainProcess | SimulatedProcess = process
        self.times = times

    def sample(self, shape: tuple[int, ...], g: torch.Generator, draws: int = 1) -> PathSample:
        return self.process.path(self.times.sample(shape, g), g, draws)

    def extra_repr(self) -> str:
        return f"times={self.times!r}"
