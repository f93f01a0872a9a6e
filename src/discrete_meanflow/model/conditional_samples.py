"""Conditional samples of an evaluation: completions of held-out records, samples of each class."""

import itertools
from dataclasses import dataclass

import numpy
import torch
from torch import Tensor

from discrete_meanflow.io.codec import Codec
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model.conditions import Conditions
from discrete_meanflow.model.options import SampleOptions
from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.model.sampling import sample_tokens
from discrete_meanflow.types import State

STEPS = (1, 4, 16)
GUIDANCE = (1.0, 2.0)
FRACTIONS = {"25 %": 0.25, "50 %": 0.5, "75 %": 0.75}  # of the positions, observed
ALL_BUT_ONE = "all but one"
MASK_SEED = 0


@dataclass(frozen=True)
class Condition:
    """What a set of conditional samples is drawn with.

    Args:
        tokens: records, ``(n, D)``; only their observed positions matter.
        observed: bool ``(n, D)``.
        steps: forward passes.
        guidance: classifier-free guidance scale.
    """

    tokens: State
    observed: Tensor
    steps: int
    guidance: float = 1.0

    def is_met(self, samples: State) -> bool:
        """Whether there is a sample for each record, with the same observed positions."""
        if samples.shape != self.tokens.shape:
            return False
        return bool(((samples == self.tokens) | ~self.observed).all())

    def draw(self, kernel: Kernel, config: Config, seed: int) -> State:
        options = SampleOptions(1, self.steps, seed, guidance=self.guidance)
        conditions = Conditions(self.tokens, self.observed, count=1)
        return torch.cat(list(sample_tokens(kernel, config, options, conditions)))


def conditions(codec: Codec, real: State, n: int) -> dict[str, Condition]:
    """All conditions of an evaluation by name.

    Args:
        real: held-out records, which are completed.
        n: samples with a class, about.
    """
    found: dict[str, Condition] = {}
    for count in observed_counts(codec).values():
        observed = whole_mask(codec, len(real), count)
        found |= {completion_name(count, k): Condition(real, observed, k) for k in STEPS}
    if has_class_samples(codec):
        condition = class_tokens(codec, n)
        for k, guidance in itertools.product(STEPS, GUIDANCE):
            found[class_sample_name(k, guidance)] = Condition(*condition, k, guidance)
    return found


def method_conditions(config: Config, real: State, n: int) -> dict[str, Condition]:
    """The conditions that the method of a run can meet: see ``conditions``."""
    method = config.plan.system
    if method.causal:
        return {}
    found = conditions(config.codec, real, n)
    if method.guided:
        return found
    return {name: condition for name, condition in found.items() if condition.guidance == 1}


def completion_name(observed: int, steps: int) -> str:
    return f"completions: {observed} observed, steps {steps}"


def class_sample_name(steps: int, guidance: float) -> str:
    return f"classes: steps {steps}, guidance {guidance:g}"


def observed_counts(codec: Codec) -> dict[str, int]:
    """The number of observed positions by name of the fraction; empty for one position.

    In short records several fractions are the same number, which is listed once. An appended class
    does not count as a position.
    """
    length = codec.bare.length
    if length < 2:
        return {}
    counts = {name: round(f * length) for name, f in FRACTIONS.items()}
    distinct: dict[str, int] = {}
    for name, count in {**counts, ALL_BUT_ONE: length - 1}.items():
        limited = max(1, min(length - 1, count))
        if limited not in distinct.values():
            distinct[name] = limited
    return distinct


def masks(records: int, length: int, count: int) -> Tensor:
    """Masks with ``count`` random positions per record: bool ``(records, length)``.

    They are always the same, so they are not saved. NumPy's generator is the same on all devices.
    """
    ranks = numpy.random.default_rng([MASK_SEED, count]).random((records, length)).argsort(1)
    return torch.from_numpy(ranks < count)


def whole_mask(codec: Codec, records: int, count: int) -> Tensor:
    """Masks of whole records: appended classes are not observed."""
    observed = torch.zeros(records, codec.length, dtype=torch.bool)
    observed[:, : codec.bare.length] = masks(records, codec.bare.length, count)
    return observed


def has_class_samples(codec: Codec) -> bool:
    """Whether there are classes, and other positions that a class can be predicted from."""
    return 0 < len(codec.class_positions) < codec.length


def requested_classes(codec: Codec, n: int) -> list[str]:
    """The class of each sample: equal numbers of each class, about n in total and at least one."""
    names = codec.class_names[:n]
    return [name for name in names for _ in range(round(n / len(names)))]


def class_tokens(codec: Codec, n: int) -> tuple[State, Tensor]:
    """Tokens and ``observed`` that request classes: ``(samples, D)``."""
    conditions = {name: codec.infill(None, name) for name in codec.class_names[:n]}
    pairs = [conditions[name] for name in requested_classes(codec, n)]
    tokens, observed = (torch.stack(parts) for parts in zip(*pairs, strict=True))
    return tokens, observed
