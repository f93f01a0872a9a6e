"""The public names and their types. ``__init__.py`` reads this list and loads names lazily."""

from discrete_meanflow import (
    ctmc as ctmc,
    data as data,
    io as io,
    kernel as kernel,
    metric as metric,
    model as model,
    network as network,
    objective as objective,
    path as path,
    process as process,
    sampler as sampler,
    schedule as schedule,
    times as times,
    training as training,
)
from discrete_meanflow.ctmc import (
    ConstantGenerator as ConstantGenerator,
    JumpRates as JumpRates,
    MatrixRates as MatrixRates,
    RateGenerator as RateGenerator,
    TimeVaryingGenerator as TimeVaryingGenerator,
    identity_residual as identity_residual,
    integral_form as integral_form,
    mean_rate as mean_rate,
    transition as transition,
)
from discrete_meanflow.data import (
    BigramChain as BigramChain,
    IndependentCategorical as IndependentCategorical,
    Law as Law,
    Sequences as Sequences,
    TokenArray as TokenArray,
    label_tokens as label_tokens,
    labelled as labelled,
)
from discrete_meanflow.errors import (
    InputError as InputError,
)
from discrete_meanflow.kernel import (
    AutoregressiveKernel as AutoregressiveKernel,
    BoundaryKernel as BoundaryKernel,
    BridgeKernel as BridgeKernel,
    DetailedBalance as DetailedBalance,
    EndpointKernel as EndpointKernel,
    EulerKernel as EulerKernel,
    ExactPosterior as ExactPosterior,
    FlowMapKernel as FlowMapKernel,
    Kernel as Kernel,
    MaskScoreKernel as MaskScoreKernel,
    MatchedFlowMap as MatchedFlowMap,
    RateKernel as RateKernel,
    RateTerm as RateTerm,
    Redraw as Redraw,
    ScoreKernel as ScoreKernel,
    StudentAndFake as StudentAndFake,
    TargetGuidance as TargetGuidance,
    UnconstrainedKernel as UnconstrainedKernel,
    UniformScoreKernel as UniformScoreKernel,
    from_denoiser as from_denoiser,
    kernel_for as kernel_for,
)
from discrete_meanflow.metric import (
    marginal_tv as marginal_tv,
    pair_tv as pair_tv,
    sampling_floor as sampling_floor,
    total_variation as total_variation,
)
from discrete_meanflow.model.one_step_model import (
    OneStepModel as OneStepModel,
)
from discrete_meanflow.network import (
    MLP as MLP,
    CausalTransformer as CausalTransformer,
    DiagonalNetwork as DiagonalNetwork,
    DiT as DiT,
    FlatMLP as FlatMLP,
    LogitMask as LogitMask,
    TimelessNetwork as TimelessNetwork,
    Transformer as Transformer,
)
from discrete_meanflow.objective import (
    BoundaryPenalty as BoundaryPenalty,
    ConsistencyLoss as ConsistencyLoss,
    DenoiserDistillation as DenoiserDistillation,
    DistributionMatching as DistributionMatching,
    Estimator as Estimator,
    EulerianLoss as EulerianLoss,
    ExactExpectation as ExactExpectation,
    KernelCE as KernelCE,
    KernelResidual as KernelResidual,
    LagrangianLoss as LagrangianLoss,
    MeanFlow as MeanFlow,
    ModelExpectation as ModelExpectation,
    MomentMatching as MomentMatching,
    Needs as Needs,
    NextToken as NextToken,
    Objective as Objective,
    PairCrossEntropy as PairCrossEntropy,
    PosteriorRegression as PosteriorRegression,
    RaoBlackwell as RaoBlackwell,
    RateKL as RateKL,
    ResidualKL as ResidualKL,
    SampledRate as SampledRate,
    SemigroupLoss as SemigroupLoss,
    TransitionKL as TransitionKL,
    TransitionLikelihood as TransitionLikelihood,
    one_hot_flow_bound as one_hot_flow_bound,
    rate_bound as rate_bound,
    transition_bound as transition_bound,
)
from discrete_meanflow.path import (
    ChainPaths as ChainPaths,
    DataPaths as DataPaths,
    MatchingPaths as MatchingPaths,
    MixedPaths as MixedPaths,
    Paths as Paths,
    TeacherPairs as TeacherPairs,
)
from discrete_meanflow.pretrained import (
    load_pretrained as load_pretrained,
    pretrained_names as pretrained_names,
)
from discrete_meanflow.process import (
    Absorbing as Absorbing,
    ChainProcess as ChainProcess,
    FewPositions as FewPositions,
    FixedPositions as FixedPositions,
    Masking as Masking,
    MixedPositions as MixedPositions,
    MixturePath as MixturePath,
    OneHotFlow as OneHotFlow,
    PathSample as PathSample,
    PrefixPositions as PrefixPositions,
    Process as Process,
    RandomPositions as RandomPositions,
    SequenceProcess as SequenceProcess,
    SimulatedProcess as SimulatedProcess,
    Structured as Structured,
    UniformDiffusion as UniformDiffusion,
    UnionPositions as UnionPositions,
)
from discrete_meanflow.sampler import (
    AutoregressiveSampler as AutoregressiveSampler,
    CachedSampler as CachedSampler,
    KernelSampler as KernelSampler,
    ODESampler as ODESampler,
    RefiningSampler as RefiningSampler,
    Sampler as Sampler,
    UnmaskingSampler as UnmaskingSampler,
)
from discrete_meanflow.schedule import (
    AlphaSchedule as AlphaSchedule,
    Distorted as Distorted,
    distorted_grid as distorted_grid,
)
from discrete_meanflow.state import (
    Continuous as Continuous,
    Discrete as Discrete,
    StateSpace as StateSpace,
)
from discrete_meanflow.times import (
    ClockUniform as ClockUniform,
    DyadicTimes as DyadicTimes,
    GridTimes as GridTimes,
    Grouped as Grouped,
    LogitNormal as LogitNormal,
    MixedTimes as MixedTimes,
    OnDiagonal as OnDiagonal,
    OneTime as OneTime,
    TimeSampler as TimeSampler,
    ToEnd as ToEnd,
    UniformGap as UniformGap,
)
from discrete_meanflow.training import (
    FlowMapDistillation as FlowMapDistillation,
    MatchingDistillation as MatchingDistillation,
    Problem as Problem,
    Recipe as Recipe,
    Trainer as Trainer,
    chain_problem as chain_problem,
    sequence_problem as sequence_problem,
    train_kernel as train_kernel,
)

__version__: str
__all__: list[str]
