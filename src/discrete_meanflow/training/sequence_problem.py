from collections.abc import Callable

from discrete_meanflow.data import Sequences
from discrete_meanflow.kernel import Kernel, kernel_on
from discrete_meanflow.network import AdaptiveTransformer, SingleTime, Transformer
from discrete_meanflow.objective import (
    Composition,
    KernelCE,
    Objective,
    PosteriorRegression,
    Weighted,
)
from discrete_meanflow.process import Masking, SequenceProcess, Soft
from discrete_meanflow.times import TauUniform, TimeSampler, UniformGap
from discrete_meanflow.training.problem import Problem


def sequence_problem(
    data: Sequences,
    *,
    objective: Callable[[SequenceProcess], Objective] | None = None,
    kernel: Callable[[], Kernel] | None = None,
    process: Callable[[Sequences], SequenceProcess] = Masking,
    times: TimeSampler | None = None,
    single_time: bool = False,
) -> Problem:
    """Sequences under masking or another noise, with the paper's Transformer and times.

    By default trained by kernel-CE. ``single_time`` is the network of posterior regression.
    With ``process=Soft``, states are points, and one step draws positions that belong together:
    a Transformer adapted to (r, t), cross-entropy on the diagonal and composition off it.
    """
    noise = process(data)
    if isinstance(noise, Soft):
        return Problem(
            noise,
            times or TauUniform(noise.states),
            kernel or (lambda: kernel_on(noise, AdaptiveTransformer(noise.states, noise.length))),
            objective(noise) if objective else flow_map_objective(),
        )

    def papers_kernel() -> Kernel:
        transformer = Transformer(noise.states, noise.length)
        return kernel_on(noise, SingleTime(transformer) if single_time else transformer)

    return Problem(
        noise,
        times or UniformGap(0.02),
        kernel or papers_kernel,
        objective(noise) if objective else KernelCE(),
    )


def flow_map_objective() -> Objective:
    """What trains a soft kernel: cross-entropy on the diagonal, composition off it."""
    return Weighted((1.0, PosteriorRegression()), (1.0, Composition()))
