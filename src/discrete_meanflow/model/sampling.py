"""Generate the tokens of new records."""

from collections.abc import Iterator

import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model.options import SampleOptions
from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import KernelSampler, LogitProcessor, chunk_size, logits
from discrete_meanflow.types import State


def sample_tokens(kernel: Kernel, config: Config, options: SampleOptions) -> Iterator[State]:
    """Yield the tokens of ``options.n`` records in chunks. Options are checked before the first."""
    codec, device = config.codec, kernel.device
    label = None if options.label is None else str(options.label)
    tokens, observed = codec.infill(options.infill, label)
    if options.guidance != 1 and not bool(observed.any()):
        raise InputError("guidance needs something to be guided by: infill, or a class")
    sampler = KernelSampler.steps(kernel, options.steps, _processors(options), options.guidance)
    process, conditional = OneHotFlow(codec.vocabulary), bool(observed.any())
    g = torch.Generator(device)
    _ = g.seed() if options.seed is None else g.manual_seed(options.seed)
    chunk = chunk_size(codec.length, codec.vocabulary, kernel.network)
    bf16 = config.plan.samples_in_bf16(device)

    def generate() -> Iterator[State]:
        for start in range(0, options.n, chunk):
            count = min(chunk, options.n - start)
            noise = process.source((count, codec.length), g)
            condition = [part.to(device).expand(count, -1) for part in (tokens, observed)]
            with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
                samples = sampler.sample(noise, g, *(condition if conditional else []))
            yield samples.cpu()

    return generate()


def _processors(options: SampleOptions) -> list[LogitProcessor]:
    processors = []
    if options.temperature is not None:
        processors.append(logits.temperature(options.temperature))
    if options.top_p is not None:
        processors.append(logits.top_p(options.top_p))
    return processors
