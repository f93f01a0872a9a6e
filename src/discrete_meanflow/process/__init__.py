"""Reference processes: what a kernel is trained on."""

from discrete_meanflow.process.base import PathSample, Process
from discrete_meanflow.process.chain import ChainProcess
from discrete_meanflow.process.clamps import Anywhere, Clamps, Either, Given
from discrete_meanflow.process.coupled import Coupled
from discrete_meanflow.process.interpolating import Absorbing, Interpolating, Masking, Uniform
from discrete_meanflow.process.posterior import Posterior
from discrete_meanflow.process.sequence import SequenceProcess
from discrete_meanflow.process.simulated import SimulatedProcess
from discrete_meanflow.process.soft import Soft
from discrete_meanflow.process.structured import Structured

__all__ = [
    "Absorbing",
    "Anywhere",
    "ChainProcess",
    "Clamps",
    "Coupled",
    "Either",
    "Given",
    "Interpolating",
    "Masking",
    "PathSample",
    "Posterior",
    "Process",
    "SequenceProcess",
    "SimulatedProcess",
    "Soft",
    "Structured",
    "Uniform",
]
