"""Several steps that do not hurt: masks lifted in an order instead of at random."""

from dataclasses import replace

import torch

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.metric import sampling_floor
from discrete_meanflow.sampler import UnmaskingSampler
from dmf_reproduction.engine.experiment import (
    STEPS,
    Cell,
    Claim,
    Experiment,
    Json,
    Scale,
    in_words,
    mean,
)
from dmf_reproduction.experiments.estimators import BEST
from dmf_reproduction.experiments.sequence_parts import (
    composed_exactly,
    configurations,
    exact_kernel,
    joint_law,
    law,
    many_draws,
    sequence_cell,
    sequence_facts,
    tv_of_each,
    unmasked,
)

STEPS_BAR = 1.15  # TV of marginals at 8 steps over that at one, as for the estimators
# TV at 8 steps over its floor. Marginals have few bins, and what is off in one position is off in
# its neighbours: draws of the truth itself differ by half of their mean.
BARS = {"tv_many": 1.5, "pair_tv": 1.35, "joint_tv": 1.35}
FLOORS = {"tv_many": "floor_many", "pair_tv": "pair_floor", "joint_tv": "joint_floor"}
WORDS = {"tv_many": "marginals", "pair_tv": "adjacent pairs", "joint_tv": "the joint law"}


class OrderedSteps(Experiment):
    name = "ordered-steps"
    title = "Composing without loss: masks lifted by bisection, exact posterior and KL form"
    where = "beyond the paper: its open problem"
    claims_summary = (
        "by bisection the exact p(x1 | x_r) has the exact joint law of a chain in "
        "ceil(log2 D) + 1 steps: marginals, pairs and, where it can be counted, the whole",
        f"KL form: TV of marginals at 8 ordered steps at most {STEPS_BAR}x that at one",
    )
    of_the_paper = False

    def cells(self, scale: Scale) -> list[Cell]:
        return [ordered_cell(name, scale) for name in configurations(scale, ("bigram",))]

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
        claims = []
        for name, fact in facts.items():
            cell = cells[f"{name}, {BEST}"]
            measured = [what for what in BARS if FLOORS[what] in fact]
            claims += [self._claim("exact", name, w, fact, fact["in order"][w]) for w in measured]
            learned = {w: [mean(cell, w, k) for k in STEPS] for w in measured}
            claims.append(self._steps(name, fact, learned["tv_many"]))
            claims += [
                self._claim(BEST, name, w, fact, learned[w]) for w in measured if w != "tv_many"
            ]
        return claims

    def _steps(self, name: str, fact: Json, found: list[float]) -> Claim:
        return Claim(
            f"steps/{name}",
            f"{name}, {BEST}: TV of marginals at 8 ordered steps at most {STEPS_BAR}x that at one, "
            f"from {fact['many_draws']:,} samples; at most 1/2/4/8",
            self.where,
            None,
            in_words(found, 4),
            found[-1] <= STEPS_BAR * found[0],
        )

    def _claim(self, who: str, name: str, what: str, fact: Json, found: list[float]) -> Claim:
        floor = fact[FLOORS[what]]
        return Claim(
            f"{who}, {what}/{name}",
            f"{name}, {who}: TV of {WORDS[what]} at 8 ordered steps within {BARS[what]}x of its "
            f"floor {floor:.4f}; at most 1/2/4/8 (exact, at random: "
            f"{in_words(fact['at random'][what], 4)})",
            self.where,
            None,
            in_words(found, 4),
            found[-1] <= BARS[what] * floor,
        )


def ordered_cell(name: str, scale: Scale) -> Cell:
    """The KL form as the experiment `estimators` trains it, sampled in order."""

    def measure(kernel: Kernel, seed: int) -> Json:
        return in_order(kernel, name, scale, seed)

    return replace(sequence_cell(name, BEST, scale), measure=measure)


def in_order(kernel: Kernel, name: str, scale: Scale, seed: int) -> Json:
    """TV of marginals, pairs and whole sequences at each number of ordered steps."""
    data = law(name)
    g = torch.Generator(kernel.home.device).manual_seed(seed)
    samplers = [UnmaskingSampler.bisecting(kernel, data.length, k) for k in STEPS]
    samples = [unmasked(sampler, data, many_draws(scale), g) for sampler in samplers]
    return tv_of_each(samples, data, scale)
