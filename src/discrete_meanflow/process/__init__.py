"""Reference processes: what a kernel is trained on."""

from discrete_meanflow.process.base import PathSample, Process
from discrete_meanflow.process.chain import ChainProcess
from discrete_meanflow.process.simulated import SimulatedProcess

__all__ = ["ChainProcess", "PathSample", "Process", "SimulatedProcess"]
