from collections.abc import Callable

from discrete_meanflow.data import Sequences
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel, kernel_for
from discrete_meanflow.network import DiagonalNetwork, DiT, Transformer
from discrete_meanflow.objective import (
    KernelCE,
    Objective,
    Phases,
    PosteriorRegression,
    SemigroupLoss,
    Weighted,
)
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import Masking, ObservedPositions, OneHotFlow, SequenceProcess
from discrete_meanflow.times import ClockUniform, MixedTimes, TimeSampler, UniformGap
from discrete_meanflow.training.problem import Problem

GAP = 0.02  # smallest t - r, as in the paper
DIAGONAL_PHASE = 0.4  # fraction of a flow map's training on the diagonal alone


def sequence_problem(
    data: Sequences,
    *,
    process: SequenceProcess | Callable[[int], SequenceProcess] = Masking,
    objective: Callable[[SequenceProcess], Objective] | Objective | None = None,
    kernel: Callable[[], Kernel] | None = None,
    times: TimeSampler | None = None,
    conditioning: float | ObservedPositions = 0.0,
    diagonal_network: bool = False,
) -> Problem:
    """Sequences with the paper's Transformer, times and kernel-CE.

    With ``process=OneHotFlow`` states are continuous and one step generates dependent positions:
    a DiT, cross-entropy on the diagonal and the semigroup loss off it.

    Args:
        data: clean sequences.
        process: a process, or a function of the vocabulary size.
        objective: an objective, or a function of the process. Objectives that need pairs at
            t = r get a fraction of them.
        kernel: builds the kernel.
        times: the law of time pairs.
        conditioning: observed positions in training, see :class:`DataPaths`.
        diagonal_network: use the network of posterior regression, which sees one time.
    """
    if not isinstance(data, Sequences):
        raise InputError(
            f"sequence problem: needs Sequences, got {type(data).__name__}; wrap an array of "
            "tokens in TokenArray(tokens, vocabulary)"
        )
    noise = process if isinstance(process, SequenceProcess) else process(data.vocabulary)
    if objective is not None and not isinstance(objective, Objective):
        objective = objective(noise)
    if isinstance(noise, OneHotFlow):
        if diagonal_network:
            raise InputError("sequence problem: a flow map needs a network of two times")
        times = times or ClockUniform(noise.states)
        objective = objective or flow_map_objective()
    objective = objective or KernelCE()
    if times is None:
        diagonal, pairs = objective.needs.diagonal, UniformGap(GAP)
        times = MixedTimes(1 - diagonal, pairs, 0.0) if diagonal else pairs

    def default_kernel() -> Kernel:
        if isinstance(noise, OneHotFlow):
            return kernel_for(noise, DiT(noise.states, data.length))
        transformer = Transformer(noise.states, data.length)
        return kernel_for(noise, DiagonalNetwork(transformer) if diagonal_network else transformer)

    paths = DataPaths(noise, data, times, conditioning)
    return Problem(paths, kernel or default_kernel, objective)


def flow_map_objective() -> Objective:
    """Cross-entropy on the diagonal, then cross-entropy plus the semigroup loss."""
    both = Weighted((1.0, PosteriorRegression()), (1.0, SemigroupLoss()))
    return Phases((DIAGONAL_PHASE, PosteriorRegression()), (1 - DIAGONAL_PHASE, both))
