"""Reference processes: source, corruption, bridge and rates. They hold no data."""

from discrete_meanflow.process.base import PathSample, Process
from discrete_meanflow.process.chain import ChainProcess
from discrete_meanflow.process.conditioning import (
    FixedPositions,
    ObservedPositions,
    RandomPositions,
    UnionPositions,
)
from discrete_meanflow.process.mixture_path import Absorbing, Masking, MixturePath, Uniform
from discrete_meanflow.process.one_hot_flow import OneHotFlow
from discrete_meanflow.process.sequence import SequenceProcess
from discrete_meanflow.process.simulated import SimulatedProcess
from discrete_meanflow.process.structured import Structured

__all__ = [
    "Absorbing",
    "ChainProcess",
    "FixedPositions",
    "Masking",
    "MixturePath",
    "ObservedPositions",
    "OneHotFlow",
    "PathSample",
    "Process",
    "RandomPositions",
    "SequenceProcess",
    "SimulatedProcess",
    "Structured",
    "Uniform",
    "UnionPositions",
]
