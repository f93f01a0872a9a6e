from collections.abc import Callable

from discrete_meanflow.data import Sequences
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel, kernel_on
from discrete_meanflow.network import DiagonalNetwork, DiT, Transformer
from discrete_meanflow.objective import (
    KernelCE,
    Objective,
    Phases,
    PosteriorRegression,
    SemigroupLoss,
    Weighted,
)
from discrete_meanflow.process import Masking, OneHotFlow, SequenceProcess
from discrete_meanflow.times import ClockUniform, MixedTimes, TimeSampler, UniformGap
from discrete_meanflow.training.problem import Problem

GAP = 0.02  # between the times of a pair, as in the paper
DIAGONAL = 0.4  # of the training of a soft kernel, on the diagonal alone


def sequence_problem(
    data: Sequences,
    *,
    objective: Callable[[SequenceProcess], Objective] | Objective | None = None,
    kernel: Callable[[], Kernel] | None = None,
    process: Callable[[Sequences], SequenceProcess] = Masking,
    times: TimeSampler | None = None,
    single_time: bool = False,
) -> Problem:
    """Sequences under masking or another noise, with the paper's Transformer and times.

    By default trained by kernel-CE; an estimator of our own gets a share of pairs at t = r, which
    pin q there. ``single_time`` is the network of posterior regression.
    With ``process=Soft``, states are points, and one step draws positions that belong together:
    a Transformer adapted to (r, t), cross-entropy on the diagonal and composition off it.
    """
    if not isinstance(data, Sequences):
        raise InputError(
            f"sequence problem: needs sequences, got {type(data).__name__}; an array of tokens "
            "becomes them by TokenArray(tokens, vocabulary)"
        )
    noise = process(data)
    if objective is not None and not isinstance(objective, Objective):
        objective = objective(noise)
    if isinstance(noise, OneHotFlow):
        if single_time:
            raise InputError("sequence problem: soft states need a network of two times")
        return Problem(
            noise,
            times or ClockUniform(noise.states),
            kernel or (lambda: kernel_on(noise, DiT(noise.states, noise.length))),
            objective or flow_map_objective(),
        )

    def papers_kernel() -> Kernel:
        transformer = Transformer(noise.states, noise.length)
        return kernel_on(noise, DiagonalNetwork(transformer) if single_time else transformer)

    objective = objective or KernelCE()
    if times is None:
        pairs = UniformGap(GAP)
        times = MixedTimes(1 - objective.diagonal, pairs, 0.0) if objective.diagonal else pairs
    return Problem(noise, times, kernel or papers_kernel, objective)


def flow_map_objective() -> Objective:
    """What trains a soft kernel: cross-entropy on the diagonal, later composition off it, too."""
    both = Weighted((1.0, PosteriorRegression()), (1.0, SemigroupLoss()))
    return Phases((DIAGONAL, PosteriorRegression()), (1 - DIAGONAL, both))
