"""Conditional samples against exact conditionals of small laws.

    python bench/conditional_laws.py [--minutes 10] [--laws equal xor ...] [--seed 0]

``OneStepModel.fit`` trains with its defaults on draws of a law that can be enumerated. The samples
are compared with the law itself, and given 20 conditions: single positions, prefixes, random
subsets and all but one. Each figure is a total variation minus its sampling floor.
"""

import argparse
import itertools
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

from discrete_meanflow import BigramChain, KernelSampler, OneHotFlow, OneStepModel
from discrete_meanflow.metric.divergence import frequencies, sampling_floor, total_variation
from discrete_meanflow.sampler import generate
from discrete_meanflow.types import Probs, Tokens
from measure import RESULTS, record

RECORDS = 500_000  # drawn from a law for training
DRAWS, CONDITIONS = 20_000, 20
STEPS = (1, 4, 16)
MASKS_SEED = 1000


class EnumerableLaw:
    """A law on all strings of D symbols: probabilities of shape ``(V,) * D``."""

    def __init__(self, probs: Tensor) -> None:
        self.vocabulary, self.length = probs.shape[0], probs.dim()
        self.probs = probs.double().flatten()
        self.cells = torch.cartesian_prod(*[torch.arange(self.vocabulary)] * self.length)

    def sample(self, n: int, rng: numpy.random.Generator) -> Tokens:
        return self.cells[rng.choice(len(self.probs), n, p=self.probs.numpy())]

    def given(self, tokens: Tokens, observed: Tensor) -> Probs:
        """The law of the strings with these tokens in the observed positions."""
        match = (self.cells[:, observed] == tokens[observed]).all(-1)
        joint = torch.where(match, self.probs, 0.0)
        return joint / joint.sum()

    def excess(self, samples: Tokens, p: Probs, g: torch.Generator) -> float:
        """Total variation between samples and p, minus that of as many draws from p."""
        powers = self.vocabulary ** torch.arange(self.length - 1, -1, -1)
        law = frequencies((samples.long() * powers).sum(-1), len(p))
        floor = sampling_floor(p, len(samples), g, 20)
        return (total_variation(law, p) - floor).item()


def laws() -> dict[str, EnumerableLaw]:
    rng = numpy.random.default_rng(7)
    xor = torch.zeros(2, 2, 2)
    for a, b in itertools.product(range(2), repeat=2):
        xor[a, b, a ^ b] = 1 / 4
    sparse = torch.zeros(64)
    sparse[rng.choice(64, 16, replace=False)] = 1 / 16
    skewed = torch.from_numpy(rng.dirichlet([0.5] * 27)).reshape(3, 3, 3)
    strings = torch.cartesian_prod(*[torch.arange(4)] * 8)
    bigram = BigramChain.dirichlet(4, 8).log_prob(strings).exp().reshape([4] * 8)
    return {
        "equal": EnumerableLaw(torch.eye(4) / 4),
        "xor": EnumerableLaw(xor),
        "sparse": EnumerableLaw(sparse.reshape(4, 4, 4)),
        "skewed": EnumerableLaw(skewed),
        "bigram": EnumerableLaw(bigram / bigram.sum()),
    }


def draw_conditions(law: EnumerableLaw, seed: int) -> list[tuple[Tokens, Tensor]]:
    """Tokens of the law, and observed positions of four kinds in turn."""
    rng, length = numpy.random.default_rng(seed), law.length
    drawn = []
    for i, tokens in enumerate(law.sample(CONDITIONS, rng)):
        order = torch.from_numpy(rng.permutation(length))
        count = int(rng.integers(1, length))
        observed = (order == 0, torch.arange(length) < count, order < count, order > 0)[i % 4]
        drawn.append((tokens, observed))
    return drawn


def judge(model: OneStepModel, law: EnumerableLaw, seed: int) -> dict[str, Any]:
    """The joint's excess, and the mean and largest excess of conditionals, at each step count."""
    g, process = torch.Generator().manual_seed(seed), OneHotFlow(law.vocabulary)
    shape, scores = (DRAWS, law.length), {}
    for k in STEPS:
        sampler = KernelSampler.steps(model.kernel, k)
        joint = law.excess(torch.cat(list(generate(sampler, process, shape, g))), law.probs, g)
        given = []
        for condition in draw_conditions(law, seed):
            samples = torch.cat(list(generate(sampler, process, shape, g, *condition)))
            given.append(law.excess(samples, law.given(*condition), g))
        scores[str(k)] = {"joint": joint, "mean": sum(given) / len(given), "largest": max(given)}
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--laws", nargs="+", default=list(laws()), choices=list(laws()))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    for name in options.laws:
        law = laws()[name]
        records = law.sample(RECORDS, numpy.random.default_rng(options.seed)).numpy()
        model = OneStepModel.fit(records, options.minutes, seed=options.seed, device="cpu")
        numbers = {
            "minutes": options.minutes,
            "seed": options.seed,
            "threads": torch.get_num_threads(),
            "parameters": model.config.plan.parameter_count(model.config.codec),
            "training steps": model.config.plan.steps,
            "TV minus floor by steps": judge(model, law, MASKS_SEED + options.seed),
        }
        command = (
            f"python bench/conditional_laws.py --laws {name} --minutes {options.minutes:g} "
            f"--seed {options.seed}"
        )
        record(f"conditional-{name}", "cpu", command, numbers, options.out)


if __name__ == "__main__":
    main()
