"""Generate records: draws of a run that satisfy all conditions."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from discrete_meanflow.io.codec import Codec
from discrete_meanflow.io.requirements import Requirements
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model.conditions import Conditions
from discrete_meanflow.model.options import SampleOptions
from discrete_meanflow.model.rejection import Rejection
from discrete_meanflow.model.run_folder import TRAIN, Config
from discrete_meanflow.model.sampling import Draws, sample_tokens
from discrete_meanflow.model.tensor_files import read_tokens
from discrete_meanflow.sampler import Sampler
from discrete_meanflow.types import State, Tokens


def read_requirements(folder: Path, codec: Codec, added: Sequence[str] = ()) -> Requirements:
    """What the constraints of a run, and others, require of its records."""
    constrained = codec.with_constraints(added).bare
    return constrained.requirements(lambda: read_tokens(folder / TRAIN, codec))


class Samples:
    """Records and their tokens in chunks. Options are checked before the first.

    Args:
        kernel: the trained kernel.
        config: the config of the run.
        options: how to sample.
        conditions: what the records satisfy.
        sampler: ``sampler_of`` the options, if it is made already.
    """

    def __init__(
        self,
        kernel: Kernel,
        config: Config,
        options: SampleOptions,
        conditions: Conditions,
        sampler: Sampler | None = None,
    ) -> None:
        self.conditions, self.codec = conditions, config.codec
        self.rejection: Rejection | None = None
        if not conditions.restricted:
            self._tokens = sample_tokens(kernel, config, options, conditions, sampler)
            return
        draws = Draws(kernel, config, options, sampler)
        draws.check(conditions)

        def draw(tokens: State, observed: Tensor) -> Tokens:
            return torch.cat(list(draws(len(tokens), tokens, observed)))

        pooled = not config.plan.system.causal  # which can only be given beginnings
        self.rejection = Rejection(draw, self.codec, conditions, draws.generator, pooled)

    def __iter__(self) -> Iterator[tuple[Any, Tokens]]:
        if self.rejection is not None:
            yield from self.rejection
            return
        first = 0
        for tokens in self._tokens:
            yield self.conditions.decode(self.codec, tokens, first), tokens
            first += len(tokens)

    def all(self) -> tuple[Any, Tokens]:
        """All records and their tokens."""
        if self.rejection is None:
            tokens = torch.cat(list(self._tokens))
            return self.conditions.decode(self.codec, tokens), tokens
        blocks = list(self.rejection)
        records = [record for block, _ in blocks for record in block]
        return records, torch.cat([tokens for _, tokens in blocks])

    @property
    def note(self) -> str | None:
        """How many draws the records took; None if each draw is one of them."""
        return None if self.rejection is None else self.rejection.note
