from collections.abc import Callable

from discrete_meanflow.data import Sequences
from discrete_meanflow.kernel import BoundaryKernel, BridgeKernel, Kernel
from discrete_meanflow.network import SingleTime, Transformer
from discrete_meanflow.objective import KernelCE, Objective
from discrete_meanflow.process import Interpolating, Masking, SequenceProcess
from discrete_meanflow.schedule import Linear
from discrete_meanflow.times import TimeSampler, UniformGap
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
    """
    noise = process(data)

    def papers_kernel() -> Kernel:
        transformer = Transformer(noise.states, noise.length)
        network = SingleTime(transformer) if single_time else transformer
        if isinstance(noise, Interpolating):
            return BoundaryKernel(network, Linear(1e-6), mask=getattr(noise, "token", None))
        return BridgeKernel(network, noise)

    return Problem(
        noise,
        times or UniformGap(0.02),
        kernel or papers_kernel,
        objective(noise) if objective else KernelCE(),
    )
