from collections.abc import Callable

from discrete_meanflow.data import Sequences
from discrete_meanflow.kernel import BoundaryKernel, Kernel
from discrete_meanflow.network import SingleTime, Transformer
from discrete_meanflow.objective import KernelCE, Objective
from discrete_meanflow.process import Masking, SequenceProcess
from discrete_meanflow.schedule import Linear
from discrete_meanflow.times import TimeSampler, UniformGap
from discrete_meanflow.training.problem import Problem


def sequence_problem(
    data: Sequences,
    *,
    objective: Callable[[SequenceProcess], Objective] | None = None,
    kernel: Callable[[], Kernel] | None = None,
    times: TimeSampler | None = None,
    single_time: bool = False,
) -> Problem:
    """Sequences under masking, with the paper's Transformer, schedule and times.

    By default trained by kernel-CE. ``single_time`` is the network of posterior regression.
    """
    process = Masking(data)

    def papers_kernel() -> Kernel:
        network = Transformer(process.states, process.length)
        return BoundaryKernel(
            SingleTime(network) if single_time else network, Linear(1e-6), mask=process.token
        )

    return Problem(
        process,
        times or UniformGap(0.02),
        kernel or papers_kernel,
        objective(process) if objective else KernelCE(),
    )
