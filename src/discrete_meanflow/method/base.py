from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from discrete_meanflow.data import Sequences
from discrete_meanflow.kernel import Kernel, kernel_for
from discrete_meanflow.objective import Objective
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import ObservedPositions, OneHotFlow, SequenceProcess
from discrete_meanflow.sampler import LogitProcessor, Sampler
from discrete_meanflow.times import TimeSampler
from discrete_meanflow.training import Problem
from discrete_meanflow.types import Tokens

KernelFactory = Callable[[SequenceProcess, nn.Module], Kernel]
SamplerFactory = Callable[[Kernel, int, Sequence[LogitProcessor], float], Sampler]
Bound = Callable[[Kernel, Tokens, torch.Generator], Tensor]

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
        bound: an upper bound of ``-log p(x1)`` in nats, ``(batch, D) -> (batch,)``, for the model
            of many steps; None if there is none.
        distilled: whether teacher pairs and distribution matching follow.
        causal: whether a position sees only those before it. Then the bound is exact, and only
            the beginnings of sequences can be observed.
        guided: whether the sampler has classifier-free guidance.
        same_symbols: whether it needs data whose positions all have the same symbols.
        multiple: what divides the part of a batch that is trained on at once.
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
    guided: bool = True
    same_symbols: bool = False
    multiple: int = 1

    @property
    def one_step(self) -> bool:
        """Whether one forward pass maps noise to a record: a flow map trained on (0, 1)."""
        return self.continuous and self.steps == 1

    @property
    def continuous(self) -> bool:
        """Whether states are points."""
        return self.process is OneHotFlow

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
