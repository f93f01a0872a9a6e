"""Multi-step sampling without loss: unmask positions in an order instead of at random."""

from dataclasses import replace

import torch

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.metric import sampling_floor
from discrete_meanflow.sampler import UnmaskingSampler
from dmf_reproduction.engine.experiment import (
    Cell,
    Claim,
    Experiment,
    Json,
    Scale,
    format_numbers,
    mean_at_steps,
)
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
from dmf_reproduction.settings import BEST, STEPS

# Largest TV of marginals at 8 steps relative to one step, as for the estimators.
STEPS_BAR = 1.15
# Largest TV at 8 steps relative to its floor. Marginals have few bins, and errors of neighbouring
# positions are correlated: the TV of draws from the data itself varies by half of its mean.
BARS = {"tv_many": 1.5, "pair_tv": 1.35, "joint_tv": 1.35}
FLOORS = {"tv_many": "floor_many", "pair_tv": "pair_floor", "joint_tv": "joint_floor"}
WORDS = {"tv_many": "marginals", "pair_tv": "adjacent pairs", "joint_tv": "whole sequences"}


class OrderedSteps(Experiment):
    name = "ordered-steps"
    title = "Ordered unmasking by bisection: exact posterior and KL form"
    where = "beyond the paper: its open problem"
    claims_summary = (
        "with bisection, the exact p(x1 | x_r) samples the exact joint distribution of a chain in "
        "ceil(log2 D) + 1 steps: marginals, pairs and, for small D, whole sequences",
        f"KL form: TV of marginals at 8 ordered steps at most {STEPS_BAR}x that at one step",
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
            measured = [key for key in BARS if FLOORS[key] in fact]
            learned = {key: mean_at_steps(cell, key) for key in measured}
            claims += [
                self._floor_claim("exact", name, key, fact, fact["in order"][key])
                for key in measured
            ]
            claims.append(self._steps_claim(name, fact, learned.pop("tv_many")))
            claims += [self._floor_claim(BEST, name, key, fact, tv) for key, tv in learned.items()]
        return claims

    def _steps_claim(self, name: str, fact: Json, tv: list[float]) -> Claim:
        return self.claim(
            f"steps/{name}",
            f"{name}, {BEST}: TV of marginals at 8 ordered steps at most {STEPS_BAR}x that at one "
            f"step, from {fact['many_draws']:,} samples; at 1/2/4/8 steps",
            format_numbers(tv, 4),
            tv[-1] <= STEPS_BAR * tv[0],
        )

    def _floor_claim(self, kernel: str, name: str, key: str, fact: Json, tv: list[float]) -> Claim:
        floor = fact[FLOORS[key]]
        return self.claim(
            f"{kernel}, {key}/{name}",
            f"{name}, {kernel}: TV of {WORDS[key]} at 8 ordered steps within {BARS[key]}x of its "
            f"floor {floor:.4f}; at 1/2/4/8 steps (exact posterior in random order: "
            f"{format_numbers(fact['at random'][key], 4)})",
            format_numbers(tv, 4),
            tv[-1] <= BARS[key] * floor,
        )


def ordered_cell(name: str, scale: Scale) -> Cell:
    """The KL form, trained as in the experiment `estimators`, sampled in order."""

    def measure(kernel: Kernel, seed: int) -> Json:
        return in_order(kernel, name, scale, seed)

    return replace(sequence_cell(name, BEST, scale), measure=measure)


def in_order(kernel: Kernel, name: str, scale: Scale, seed: int) -> Json:
    """TV of marginals, pairs and whole sequences at each number of ordered steps."""
    data = law(name)
    g = torch.Generator(kernel.device).manual_seed(seed)
    samplers = [UnmaskingSampler.bisecting(kernel, data.length, k) for k in STEPS]
    samples = [unmasked(sampler, data, many_draws(scale), g) for sampler in samplers]
    return tv_of_each(samples, data, scale)
