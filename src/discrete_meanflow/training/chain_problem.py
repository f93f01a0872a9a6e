from collections.abc import Callable

from discrete_meanflow.ctmc.generator import RateGenerator
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import BoundaryKernel, Kernel
from discrete_meanflow.network import MLP
from discrete_meanflow.objective import ExactExpectation, KernelResidual, Objective
from discrete_meanflow.path import ChainPaths
from discrete_meanflow.process import ChainProcess
from discrete_meanflow.schedule import Exponential
from discrete_meanflow.times import TimeSampler, UniformGap
from discrete_meanflow.training.problem import Problem


def chain_problem(
    generator: RateGenerator,
    *,
    objective: Callable[[ChainProcess], Objective] | None = None,
    kernel: Callable[[], Kernel] | None = None,
    times: TimeSampler | None = None,
    stratified: bool = False,
) -> Problem:
    """A finite chain with the paper's kernel and times.

    Defaults: the kernel residual with the exact expectation, an MLP with the exponential schedule
    ``c = 2 max|u|``, and uniform time pairs at least 0.01 apart.
    """
    if not isinstance(generator, RateGenerator):
        raise InputError(
            f"chain problem: needs a rate generator, got {type(generator).__name__}; wrap a matrix "
            "in ConstantGenerator(matrix)"
        )
    process = ChainProcess(generator, stratified=stratified)

    def paper_kernel() -> Kernel:
        return BoundaryKernel(MLP(generator.states), generator.states, Exponential.of(generator))

    return Problem(
        ChainPaths(process, times or UniformGap(0.01)),
        kernel or paper_kernel,
        objective(process) if objective else KernelResidual(ExactExpectation(process)),
    )
