"""Several steps that do not hurt: masks lifted in an order instead of at random."""

import torch

from discrete_meanflow.experiment.base import (
    STEPS,
    Cell,
    Claim,
    Experiment,
    Json,
    Scale,
    in_words,
)
from discrete_meanflow.experiment.sequence_parts import (
    composed_exactly,
    configurations,
    exact_kernel,
    joint_law,
    law,
    many_draws,
    sequence_facts,
    tv_of_each,
    unmasked,
)
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.metric import sampling_floor
from discrete_meanflow.sampler import OrderedSampler

# TV at 8 steps over its floor. Of 20 draws of the truth itself one has 1.48 times the mean floor of
# marginals: few bins, and what is off in one position is off in its neighbours.
BARS = {"tv_many": 1.5, "pair_tv": 1.35, "joint_tv": 1.35}
FLOORS = {"tv_many": "floor_many", "pair_tv": "pair_floor", "joint_tv": "joint_floor"}
WORDS = {"tv_many": "marginals", "pair_tv": "adjacent pairs", "joint_tv": "the joint law"}


class OrderedSteps(Experiment):
    name = "ordered-steps"
    title = "Composing without loss: the exact posterior, masks lifted by bisection"
    where = "beyond the paper: its open problem"
    promises = (
        "by bisection the exact p(x1 | x_r) has the exact joint law of a chain in "
        "ceil(log2 D) + 1 steps: marginals, pairs and, where it can be counted, the whole",
    )
    of_the_paper = False

    def cells(self, scale: Scale) -> list[Cell]:
        return []

    def facts(self, scale: Scale) -> Json:
        facts = sequence_facts(configurations(scale, ("bigram",)), scale)
        for name, fact in facts.items():
            fact["at random"] = composed_exactly(name, scale)
            fact["in order"] = in_order(exact_kernel(law(name)), name, scale, seed=0)
            if (joint := joint_law(law(name))) is not None:
                g = torch.Generator().manual_seed(0)
                fact["joint_floor"] = sampling_floor(joint, many_draws(scale), g, 20).mean().item()
        return facts

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        return [
            self._claim(name, what, fact)
            for name, fact in facts.items()
            for what in BARS
            if FLOORS[what] in fact
        ]

    def _claim(self, name: str, what: str, fact: Json) -> Claim:
        found, floor = fact["in order"][what], fact[FLOORS[what]]
        return Claim(
            f"{what}/{name}",
            f"{name}: TV of {WORDS[what]} at 8 ordered steps within {BARS[what]}x of its floor "
            f"{floor:.4f}; at 1/2/4/8 (at random: {in_words(fact['at random'][what], 4)})",
            self.where,
            None,
            in_words(found, 4),
            found[-1] <= BARS[what] * floor,
        )


def in_order(kernel: Kernel, name: str, scale: Scale, seed: int) -> Json:
    """TV of marginals, pairs and whole sequences at each number of ordered steps."""
    data = law(name)
    g = torch.Generator(kernel.home.device).manual_seed(seed)
    samplers = [OrderedSampler.bisecting(kernel, data.length, k) for k in STEPS]
    samples = [unmasked(sampler, data, many_draws(scale), g) for sampler in samplers]
    return tv_of_each(samples, data, scale)
