from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from discrete_meanflow.data import Sequences
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel, kernel_for
from discrete_meanflow.objective import Objective
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import ObservedPositions, SequenceProcess
from discrete_meanflow.sampler import LogitProcessor, Sampler
from discrete_meanflow.times import TimeSampler
from discrete_meanflow.training import Problem
from discrete_meanflow.types import Tokens

KernelFactory = Callable[[SequenceProcess, nn.Module], Kernel]
SamplerFactory = Callable[[Kernel, int, Sequence[LogitProcessor], float], Sampler]
Bound = Callable[[Kernel, SequenceProcess, Tokens, torch.Generator], Tensor]

MANY = 64  # function evaluations of methods that need many


@dataclass(frozen=True)
class Method:
    """A system that generates sequences, as values: what it trains and how it samples.

    Args:
        summary: one line with the reference.
        process: the process over V symbols.
        objective: what the kernel is trained with.
        times: the law of time pairs over V symbols.
        sampler: ``(kernel, steps, logit_processors, guidance)``; a step is a function evaluation.
        steps: function evaluations per record by default; 0: one for each position.
        kernel: the kernel of a network over the states of the process.
        bound: an upper bound of the negative log-likelihood of sequences in nats, ``(batch,)``.
        distilled: whether teacher pairs and distribution matching follow.
        causal: whether a position sees only those before it.
    """

    summary: str
    process: Callable[[int], SequenceProcess]
    objective: Callable[[SequenceProcess], Objective]
    times: Callable[[int], TimeSampler]
    sampler: SamplerFactory
    steps: int
    kernel: KernelFactory = kernel_for
    bound: Bound | None = None
    distilled: bool = False
    causal: bool = False

    def problem(
        self,
        process: SequenceProcess,
        network: Callable[[], nn.Module],
        data: Sequences,
        conditioning: ObservedPositions,
    ) -> Problem:
        """The problem of its training, or of its first stage."""
        paths = DataPaths(process, data, self.times(data.vocabulary), conditioning)
        return Problem(paths, lambda: self.kernel(process, network()), self.objective(process))


def without_guidance(
    make: Callable[[Kernel, int, Sequence[LogitProcessor]], Sampler],
) -> SamplerFactory:
    """The factory of a sampler that knows no guidance."""

    def sampler(
        kernel: Kernel, steps: int, processors: Sequence[LogitProcessor], guidance: float
    ) -> Sampler:
        if guidance != 1:
            raise InputError("guidance: this method's sampler has none; leave it at 1")
        return make(kernel, steps, processors)

    return sampler
