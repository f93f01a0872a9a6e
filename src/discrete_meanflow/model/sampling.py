"""Generate the tokens of new records."""

from collections.abc import Iterator
from itertools import chain

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
    codec, device = config.codec, kernel.device
    conditions = conditions or read_conditions(codec, options)
    if config.plan.system.causal:
        _check_beginnings(conditions)
    sampler = sampler or sampler_of(kernel, config, options)
    g = torch.Generator(device)
    _ = g.seed() if options.seed is None else g.manual_seed(options.seed)
    process, bf16 = config.plan.process(codec), config.plan.samples_in_bf16(device)

    def chunks(n: int, tokens: Tokens, observed: Tensor) -> Iterator[Tokens]:
        shape = (n, codec.length)
        if not bool(observed.any()):
            return generate(sampler, process, shape, g, bf16=bf16)
        known = tokens.to(device), observed.to(device)
        return generate(sampler, process, shape, g, *known, bf16=bf16)

    return chain.from_iterable(chunks(*group) for group in conditions.groups())


def _check_beginnings(conditions: Conditions) -> None:
    """Raise if a position is observed after one that is not."""
    observed = conditions.observed
    if bool((observed[:, 1:] & ~observed[:, :-1]).any()):
        raise InputError(
            "autoregressive: only the beginning of a record can be known, not its class, which "
            "comes last; other methods take any positions"
        )


def _processors(options: SampleOptions, allowed: Tensor | None) -> list[LogitProcessor]:
    processors = [] if allowed is None else [logits.only(allowed)]
    if options.temperature is not None:
        processors.append(logits.temperature(options.temperature))
    if options.top_p is not None:
        processors.append(logits.top_p(options.top_p))
    return processors
