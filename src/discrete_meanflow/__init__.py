"""Discrete MeanFlow: one-step generation of discrete data with learned transition kernels.

The namespace holds self-explanatory names; more general ones live in the submodules, such as
``dmf.ctmc.ring`` or ``dmf.schedule.Linear``. Names load on first use, so ``import
discrete_meanflow`` does not import torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discrete_meanflow import (
        ctmc as ctmc,
    )
    from discrete_meanflow import (
        data as data,
    )
    from discrete_meanflow import (
        kernel as kernel,
    )
    from discrete_meanflow import (
        metric as metric,
    )
    from discrete_meanflow import (
        model as model,
    )
    from discrete_meanflow import (
        network as network,
    )
    from discrete_meanflow import (
        objective as objective,
    )
    from discrete_meanflow import (
        path as path,
    )
    from discrete_meanflow import (
        process as process,
    )
    from discrete_meanflow import (
        sampler as sampler,
    )
    from discrete_meanflow import (
        schedule as schedule,
    )
    from discrete_meanflow import (
        times as times,
    )
    from discrete_meanflow import (
        training as training,
    )
    from discrete_meanflow.ctmc import (
        ConstantGenerator as ConstantGenerator,
    )
    from discrete_meanflow.ctmc import (
        JumpRates as JumpRates,
    )
    from discrete_meanflow.ctmc import (
        MatrixRates as MatrixRates,
    )
    from discrete_meanflow.ctmc import (
        RateGenerator as RateGenerator,
    )
    from discrete_meanflow.ctmc import (
        TimeVaryingGenerator as TimeVaryingGenerator,
    )
    from discrete_meanflow.ctmc import (
        identity_residual as identity_residual,
    )
    from discrete_meanflow.ctmc import (
        integral_form as integral_form,
    )
    from discrete_meanflow.ctmc import (
        mean_rate as mean_rate,
    )
    from discrete_meanflow.ctmc import (
        transition as transition,
    )
    from discrete_meanflow.data import (
        BigramChain as BigramChain,
    )
    from discrete_meanflow.data import (
        IndependentCategorical as IndependentCategorical,
    )
    from discrete_meanflow.data import (
        Law as Law,
    )
    from discrete_meanflow.data import (
        Sequences as Sequences,
    )
    from discrete_meanflow.data import (
        TokenArray as TokenArray,
    )
    from discrete_meanflow.data import (
        label_tokens as label_tokens,
    )
    from discrete_meanflow.data import (
        labelled as labelled,
    )
    from discrete_meanflow.errors import (
        InputError as InputError,
    )
    from discrete_meanflow.kernel import (
        BoundaryKernel as BoundaryKernel,
    )
    from discrete_meanflow.kernel import (
        BridgeKernel as BridgeKernel,
    )
    from discrete_meanflow.kernel import (
        EndpointKernel as EndpointKernel,
    )
    from discrete_meanflow.kernel import (
        ExactPosterior as ExactPosterior,
    )
    from discrete_meanflow.kernel import (
        FlowMapKernel as FlowMapKernel,
    )
    from discrete_meanflow.kernel import (
        Kernel as Kernel,
    )
    from discrete_meanflow.kernel import (
        UnconstrainedKernel as UnconstrainedKernel,
    )
    from discrete_meanflow.kernel import (
        from_denoiser as from_denoiser,
    )
    from discrete_meanflow.kernel import (
        kernel_for as kernel_for,
    )
    from discrete_meanflow.metric import (
        kernel_error as kernel_error,
    )
    from discrete_meanflow.metric import (
        marginal_tv as marginal_tv,
    )
    from discrete_meanflow.metric import (
        pair_tv as pair_tv,
    )
    from discrete_meanflow.metric import (
        sampling_floor as sampling_floor,
    )
    from discrete_meanflow.metric import (
        total_variation as total_variation,
    )
    from discrete_meanflow.model import (
        OneStepModel as OneStepModel,
    )
    from discrete_meanflow.network import (
        MLP as MLP,
    )
    from discrete_meanflow.network import (
        DiagonalNetwork as DiagonalNetwork,
    )
    from discrete_meanflow.network import (
        DiT as DiT,
    )
    from discrete_meanflow.network import (
        FlatMLP as FlatMLP,
    )
    from discrete_meanflow.network import (
        LogitMask as LogitMask,
    )
    from discrete_meanflow.network import (
        Transformer as Transformer,
    )
    from discrete_meanflow.objective import (
        BoundaryPenalty as BoundaryPenalty,
    )
    from discrete_meanflow.objective import (
        DenoiserDistillation as DenoiserDistillation,
    )
    from discrete_meanflow.objective import (
        Estimator as Estimator,
    )
    from discrete_meanflow.objective import (
        ExactExpectation as ExactExpectation,
    )
    from discrete_meanflow.objective import (
        KernelCE as KernelCE,
    )
    from discrete_meanflow.objective import (
        KernelResidual as KernelResidual,
    )
    from discrete_meanflow.objective import (
        LagrangianLoss as LagrangianLoss,
    )
    from discrete_meanflow.objective import (
        ModelExpectation as ModelExpectation,
    )
    from discrete_meanflow.objective import (
        Needs as Needs,
    )
    from discrete_meanflow.objective import (
        Objective as Objective,
    )
    from discrete_meanflow.objective import (
        PairCrossEntropy as PairCrossEntropy,
    )
    from discrete_meanflow.objective import (
        PosteriorRegression as PosteriorRegression,
    )
    from discrete_meanflow.objective import (
        RaoBlackwell as RaoBlackwell,
    )
    from discrete_meanflow.objective import (
        ResidualKL as ResidualKL,
    )
    from discrete_meanflow.objective import (
        SampledRate as SampledRate,
    )
    from discrete_meanflow.objective import (
        SemigroupLoss as SemigroupLoss,
    )
    from discrete_meanflow.objective import (
        TransitionLikelihood as TransitionLikelihood,
    )
    from discrete_meanflow.path import (
        ChainPaths as ChainPaths,
    )
    from discrete_meanflow.path import (
        DataPaths as DataPaths,
    )
    from discrete_meanflow.path import (
        MixedPaths as MixedPaths,
    )
    from discrete_meanflow.path import (
        Paths as Paths,
    )
    from discrete_meanflow.path import (
        TeacherPairs as TeacherPairs,
    )
    from discrete_meanflow.process import (
        Absorbing as Absorbing,
    )
    from discrete_meanflow.process import (
        ChainProcess as ChainProcess,
    )
    from discrete_meanflow.process import (
        FixedPositions as FixedPositions,
    )
    from discrete_meanflow.process import (
        Masking as Masking,
    )
    from discrete_meanflow.process import (
        MixturePath as MixturePath,
    )
    from discrete_meanflow.process import (
        OneHotFlow as OneHotFlow,
    )
    from discrete_meanflow.process import (
        PathSample as PathSample,
    )
    from discrete_meanflow.process import (
        Process as Process,
    )
    from discrete_meanflow.process import (
        RandomPositions as RandomPositions,
    )
    from discrete_meanflow.process import (
        SequenceProcess as SequenceProcess,
    )
    from discrete_meanflow.process import (
        SimulatedProcess as SimulatedProcess,
    )
    from discrete_meanflow.process import (
        Structured as Structured,
    )
    from discrete_meanflow.process import (
        UnionPositions as UnionPositions,
    )
    from discrete_meanflow.sampler import (
        KernelSampler as KernelSampler,
    )
    from discrete_meanflow.sampler import (
        ODESampler as ODESampler,
    )
    from discrete_meanflow.sampler import (
        Sampler as Sampler,
    )
    from discrete_meanflow.sampler import (
        UnmaskingSampler as UnmaskingSampler,
    )
    from discrete_meanflow.schedule import (
        AlphaSchedule as AlphaSchedule,
    )
    from discrete_meanflow.state import (
        Continuous as Continuous,
    )
    from discrete_meanflow.state import (
        Discrete as Discrete,
    )
    from discrete_meanflow.state import (
        StateSpace as StateSpace,
    )
    from discrete_meanflow.times import (
        ClockUniform as ClockUniform,
    )
    from discrete_meanflow.times import (
        LogitNormal as LogitNormal,
    )
    from discrete_meanflow.times import (
        MixedTimes as MixedTimes,
    )
    from discrete_meanflow.times import (
        OnDiagonal as OnDiagonal,
    )
    from discrete_meanflow.times import (
        TimeSampler as TimeSampler,
    )
    from discrete_meanflow.times import (
        UniformGap as UniformGap,
    )
    from discrete_meanflow.training import (
        FlowMapDistillation as FlowMapDistillation,
    )
    from discrete_meanflow.training import (
        Problem as Problem,
    )
    from discrete_meanflow.training import (
        Recipe as Recipe,
    )
    from discrete_meanflow.training import (
        Trainer as Trainer,
    )
    from discrete_meanflow.training import (
        chain_problem as chain_problem,
    )
    from discrete_meanflow.training import (
        sequence_problem as sequence_problem,
    )
    from discrete_meanflow.training import (
        train_kernel as train_kernel,
    )

__version__ = "0.1.0"

_NAMES = {
    "ctmc": (
        "ConstantGenerator",
        "JumpRates",
        "MatrixRates",
        "RateGenerator",
        "TimeVaryingGenerator",
        "identity_residual",
        "integral_form",
        "mean_rate",
        "transition",
    ),
    "data": (
        "BigramChain",
        "IndependentCategorical",
        "Law",
        "Sequences",
        "TokenArray",
        "label_tokens",
        "labelled",
    ),
    "errors": ("InputError",),
    "kernel": (
        "BoundaryKernel",
        "BridgeKernel",
        "EndpointKernel",
        "ExactPosterior",
        "FlowMapKernel",
        "Kernel",
        "UnconstrainedKernel",
        "from_denoiser",
        "kernel_for",
    ),
    "metric": (
        "kernel_error",
        "marginal_tv",
        "pair_tv",
        "sampling_floor",
        "total_variation",
    ),
    "model": ("OneStepModel",),
    "network": (
        "DiT",
        "DiagonalNetwork",
        "FlatMLP",
        "LogitMask",
        "MLP",
        "Transformer",
    ),
    "objective": (
        "BoundaryPenalty",
        "DenoiserDistillation",
        "Estimator",
        "ExactExpectation",
        "KernelCE",
        "KernelResidual",
        "LagrangianLoss",
        "ModelExpectation",
        "Needs",
        "Objective",
        "PairCrossEntropy",
        "PosteriorRegression",
        "RaoBlackwell",
        "ResidualKL",
        "SampledRate",
        "SemigroupLoss",
        "TransitionLikelihood",
    ),
    "path": (
        "ChainPaths",
        "DataPaths",
        "MixedPaths",
        "Paths",
        "TeacherPairs",
    ),
    "process": (
        "Absorbing",
        "ChainProcess",
        "FixedPositions",
        "Masking",
        "MixturePath",
        "OneHotFlow",
        "PathSample",
        "Process",
        "RandomPositions",
        "SequenceProcess",
        "SimulatedProcess",
        "Structured",
        "UnionPositions",
    ),
    "sampler": (
        "KernelSampler",
        "ODESampler",
        "Sampler",
        "UnmaskingSampler",
    ),
    "schedule": ("AlphaSchedule",),
    "state": (
        "Continuous",
        "Discrete",
        "StateSpace",
    ),
    "times": (
        "ClockUniform",
        "LogitNormal",
        "MixedTimes",
        "OnDiagonal",
        "TimeSampler",
        "UniformGap",
    ),
    "training": (
        "FlowMapDistillation",
        "Problem",
        "Recipe",
        "Trainer",
        "chain_problem",
        "sequence_problem",
        "train_kernel",
    ),
}
_HOME = {name: home for home, names in _NAMES.items() for name in names}
_SUBMODULES = (
    "ctmc",
    "data",
    "kernel",
    "metric",
    "model",
    "network",
    "objective",
    "path",
    "process",
    "sampler",
    "schedule",
    "times",
    "training",
)
__all__ = [*sorted(_HOME), *_SUBMODULES]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
