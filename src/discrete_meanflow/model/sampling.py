"""Generate the tokens of new records."""

from collections.abc import Iterator

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model.options import SampleOptions
from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import KernelSampler, LogitProcessor, generate, logits
from discrete_meanflow.types import Tokens


def sample_tokens(kernel: Kernel, config: Config, options: SampleOptions) -> Iterator[Tokens]:
    """Yield the tokens of ``options.n`` records in chunks. Options are checked before the first."""
    label = None if options.label is None else str(options.label)
    condition = config.codec.infill(options.infill, label)
    return complete_tokens(kernel, config, *condition, options)


def complete_tokens(
    kernel: Kernel, config: Config, tokens: Tokens, observed: Tensor, options: SampleOptions
) -> Iterator[Tokens]:
    """Yield the tokens of ``options.n`` records in chunks, given those of observed positions.

    Args:
        tokens: symbols of the observed positions, ``(D,)`` or, per record, ``(n, D)``.
        observed: bool of the same shape.
        options: all but ``infill`` and ``label``, which tokens and observed replace.
    """
    codec, device = config.codec, kernel.device
    conditional = bool(observed.any())
    if options.guidance != 1 and not conditional:
        raise InputError("guidance needs a condition: set infill or a class")
    sampler = KernelSampler.steps(kernel, options.steps, _processors(options), options.guidance)
    g = torch.Generator(device)
    _ = g.seed() if options.seed is None else g.manual_seed(options.seed)
    process, shape = OneHotFlow(codec.vocabulary), (options.n, codec.length)
    bf16 = config.plan.samples_in_bf16(device)
    if not conditional:
        return generate(sampler, process, shape, g, bf16=bf16)
    condition = (tokens.long().to(device), observed.to(device))
    return generate(sampler, process, shape, g, *condition, bf16=bf16)


def _processors(options: SampleOptions) -> list[LogitProcessor]:
    processors = []
    if options.temperature is not None:
        processors.append(logits.temperature(options.temperature))
    if options.top_p is not None:
        processors.append(logits.top_p(options.top_p))
    return processors
