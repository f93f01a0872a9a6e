"""Discrete MeanFlow: one-step generation of discrete data by learned transition kernels.

Everything a user needs is here by name; each is loaded when it is first asked for, so that
importing the package (as ``dmf --help`` does) does not load torch.
"""

import importlib
import os
import sys
from typing import Any

__version__ = "0.1.0"

# How often a thread of torch looks whether the others are ready before it sleeps. By default it is
# a hundred times as often: with other programs on the same cores, threads do little else. It is
# read when torch is loaded.
if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")

_HOMES = {
    "ctmc.generator": ("ConstantGenerator", "RateGenerator", "TimeVaryingGenerator"),
    "ctmc.transition": ("matrix_exponential", "ordered_product", "transition", "uniformization"),
    "ctmc.mean_rate": ("identity_residual", "integral_form", "mean_rate"),
    "ctmc.simulate": ("JumpRates", "MatrixRates", "simulate", "simulate_paths"),
    "ctmc.chains": (
        "BulkQueue",
        "Epidemic",
        "birth_death",
        "pulsed_ring",
        "random_dense",
        "ring",
        "tilting_birth_death",
        "two_state",
    ),
    "ctmc.product": ("factorised", "independent"),
    "data": (
        "Alphabet",
        "BigramChain",
        "IndependentCategorical",
        "Law",
        "Sequences",
        "TokenArray",
        "label_tokens",
        "labelled",
        "split",
    ),
    "process": (
        "Absorbing",
        "RandomPositions",
        "ChainProcess",
        "Coupled",
        "FixedPositions",
        "Masking",
        "PathSample",
        "ExactPosterior",
        "Process",
        "SequenceProcess",
        "SimulatedProcess",
        "OneHotFlow",
        "Structured",
        "Uniform",
    ),
    "schedule": ("AlphaSchedule", "Exponential", "Linear"),
    "clock": ("DecodingClock",),
    "times": (
        "FromSource",
        "LogitNormal",
        "MixedTimes",
        "ClockUniform",
        "TimePair",
        "TimeSampler",
        "UniformGap",
    ),
    "network": (
        "MLP",
        "DiT",
        "FlatMLP",
        "DiagonalNetwork",
        "SinusoidalEmbedding",
        "Transformer",
    ),
    "kernel": (
        "BoundaryKernel",
        "BridgeKernel",
        "Kernel",
        "FlowMapKernel",
        "UnconstrainedKernel",
        "from_denoiser",
    ),
    "objective": (
        "BoundaryPenalty",
        "SemigroupLoss",
        "DenoiserDistillation",
        "Estimator",
        "ExactExpectation",
        "LagrangianLoss",
        "KernelCE",
        "KernelResidual",
        "ModelExpectation",
        "Objective",
        "OnCouples",
        "Phases",
        "PosteriorRegression",
        "RaoBlackwell",
        "ResidualKL",
        "SampledRate",
        "TransitionLikelihood",
        "Weighted",
        "finite_difference",
        "forward_mode",
        "hybrid",
        "remaining_time",
    ),
    "sampler": (
        *("ODESampler", "KernelSampler", "UnmaskingSampler"),
        *("temperature", "top_p", "forbid"),
    ),
    "metric": (
        "composition_defect",
        "kernel_error",
        "marginal_tv",
        "pair_tv",
        "sampling_floor",
        "time_grid",
        "total_variation",
    ),
    "training": (
        "FlowMapDistillation",
        "Problem",
        "Recipe",
        "Trainer",
        "chain_problem",
        "sequence_problem",
        "train",
    ),
    "model": ("OneStepModel",),
    "errors": ("InputError",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
