"""Reference processes: source, corruption, bridge and rates. They hold no data."""

from discrete_meanflow.process.base import PathSample as PathSample, Process as Process
from discrete_meanflow.process.chain import ChainProcess as ChainProcess
from discrete_meanflow.process.conditioning import (
    FewPositions as FewPositions,
    FixedPositions as FixedPositions,
    MixedPositions as MixedPositions,
    ObservedPositions as ObservedPositions,
    PrefixPositions as PrefixPositions,
    RandomPositions as RandomPositions,
    UnionPositions as UnionPositions,
)
from discrete_meanflow.process.mixture_path import (
    Absorbing as Absorbing,
    Masking as Masking,
    MixturePath as MixturePath,
    Uniform as Uniform,
)
from discrete_meanflow.process.one_hot_flow import OneHotFlow as OneHotFlow
from discrete_meanflow.process.sequence import SequenceProcess as SequenceProcess
from discrete_meanflow.process.simulated import SimulatedProcess as SimulatedProcess
from discrete_meanflow.process.structured import Structured as Structured
from discrete_meanflow.process.uniform_diffusion import UniformDiffusion as UniformDiffusion
