"""Generate the tokens of new records."""

from collections.abc import Iterator
from itertools import chain, starmap

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.method import names_of_methods
from discrete_meanflow.model.conditions import Conditions, read_conditions
from discrete_meanflow.model.options import SampleOptions
from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.sampler import LogitProcessor, RefiningSampler, Sampler, generate, logits
from discrete_meanflow.types import Tokens


def sampler_of(
    kernel: Kernel, config: Config, options: SampleOptions, allowed: Tensor | None = None
) -> Sampler:
    """The sampler of a run; raise if its method lacks an option.

    Args:
        allowed: symbols each position may have, bool ``(D, V)``; None allows all.
    """
    method, name = config.plan.system, config.plan.method
    if options.guidance != 1 and not method.guided:
        others = names_of_methods(lambda method: method.guided)
        raise InputError(f"guidance: method {name} has none; leave it at 1, or train {others}")
    if options.refine and not method.one_step:
        others = names_of_methods(lambda method: method.one_step)
        raise InputError(
            f"refine: method {name} has no step from noise to records; leave it out, or train "
            f"{others}"
        )
    make = RefiningSampler if options.refine else method.sampler
    steps = options.steps or config.plan.default_steps(config.codec)
    return make(kernel, steps, _processors(options, allowed), options.guidance)


def sample_tokens(
    kernel: Kernel,
    config: Config,
    options: SampleOptions,
    conditions: Conditions | None = None,
    sampler: Sampler | None = None,
) -> Iterator[Tokens]:
    """Yield the tokens of all records in chunks. Options are checked before the first.

    Args:
        kernel: the trained kernel.
        config: the config of the run.
        options: how to sample; ``options.n`` records for each pattern.
        conditions: of the options, if they are read already.
        sampler: ``sampler_of`` the options, if it is made already.
    """
    conditions = conditions or read_conditions(config.codec, options)
    draws = Draws(kernel, config, options, sampler)
    draws.check(conditions)
    return chain.from_iterable(starmap(draws, conditions.groups()))


class Draws:
    """Draws of the tokens of records given their observed positions.

    Args:
        kernel: the trained kernel.
        config: the config of the run.
        options: how to sample.
        sampler: ``sampler_of`` the options, if it is made already.
    """

    def __init__(
        self, kernel: Kernel, config: Config, options: SampleOptions, sampler: Sampler | None = None
    ) -> None:
        self.sampler = sampler or sampler_of(kernel, config, options)
        self.causal, self.generator = config.plan.system.causal, torch.Generator(kernel.device)
        _ = (
            self.generator.seed()
            if options.seed is None
            else self.generator.manual_seed(options.seed)
        )
        self.process, self.length = config.plan.process(config.codec), config.codec.length
        self.bf16 = config.plan.samples_in_bf16(kernel.device)

    def check(self, conditions: Conditions) -> None:
        """Raise if the method is causal and a position is observed after one that is not."""
        observed = conditions.observed
        if self.causal and bool((observed[:, 1:] & ~observed[:, :-1]).any()):
            raise InputError(
                "autoregressive: only the beginning of a record can be known, not its class, which "
                "comes last; other methods take any positions"
            )

    def __call__(self, n: int, tokens: Tokens, observed: Tensor) -> Iterator[Tokens]:
        """Yield the tokens of n records in chunks.

        Args:
            n: number of records.
            tokens: of the observed positions, ``(n, D)``, or ``(1, D)`` for all.
            observed: bool of the same shape.
        """
        shape, g = (n, self.length), self.generator
        if not bool(observed.any()):
            return generate(self.sampler, self.process, shape, g, bf16=self.bf16)
        known = tokens.to(g.device), observed.to(g.device)
        return generate(self.sampler, self.process, shape, g, *known, bf16=self.bf16)


def _processors(options: SampleOptions, allowed: Tensor | None) -> list[LogitProcessor]:
    processors = [] if allowed is None else [logits.only(allowed)]
    if options.temperature is not None:
        processors.append(logits.temperature(options.temperature))
    if options.top_p is not None:
        processors.append(logits.top_p(options.top_p))
    return processors
