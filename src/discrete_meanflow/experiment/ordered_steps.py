"""Several steps that do not hurt: masks lifted in an order instead of at random."""

from dataclasses import replace

import torch

from discrete_meanflow.experiment.base import STEPS, Cell, Claim, Experiment, Json, Scale, mean
from discrete_meanflow.experiment.estimators import BEST
from discrete_meanflow.experiment.sequence_parts import (
    composed_exactly,
    configurations,
    exact_kernel,
    law,
    many_draws,
    sequence_cell,
    sequence_facts,
    tv_of_each,
    unmasked,
)
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.sampler import OrderedSampler

BAR = 1.15  # TV at 8 steps over TV at one
PAIRS = 1.35  # TV of adjacent pairs at 8 steps over its floor


class OrderedSteps(Experiment):
    name = "ordered-steps"
    title = "Composing without loss: masks lifted by bisection, KL form"
    where = "beyond the paper: its open problem"
    promises = (
        "by bisection the exact p(x1 | x_r) has the exact joint law in log2(D) + 1 steps",
        f"TV of the marginals at 8 steps at most {BAR}x that at one, on coupled data too",
        f"adjacent pairs within {PAIRS}x of their floor at 8 steps",
    )
    of_the_paper = False

    def cells(self, scale: Scale) -> list[Cell]:
        return [ordered_cell(name, scale) for name in configurations(scale, ("bigram",))]

    def facts(self, scale: Scale) -> Json:
        facts = sequence_facts(configurations(scale, ("bigram",)), scale)
        for name, fact in facts.items():
            fact["at random"] = composed_exactly(name, scale)
            fact["in order"] = in_order(exact_kernel(law(name)), name, scale, seed=0)
        return facts

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        claims = []
        for name, fact in facts.items():
            cell, exact = cells[f"{name}, {BEST}"], fact["in order"]
            tv = [mean(cell, "tv_many", k) for k in STEPS]
            pairs = [mean(cell, "pair_tv", k) for k in STEPS]
            claims += [
                self._steps(f"exact/{name}", f"{name}, exact p(x1 | x_r)", exact["tv_many"], fact),
                self._pairs(f"exact-pairs/{name}", f"{name}, the same", exact["pair_tv"], fact),
                self._steps(f"steps/{name}", f"{name}, {BEST}", tv, fact),
                self._pairs(f"pairs/{name}", f"{name}, {BEST}", pairs, fact),
            ]
        return claims

    def _steps(self, id: str, who: str, tv: list[float], fact: Json) -> Claim:
        return Claim(
            id,
            f"{who}: TV at 8 ordered steps at most {BAR}x that at one, from "
            f"{fact['many_draws']:,} samples; at 1/2/4/8 (exact, masks lifted at random: "
            f"{_row(fact['at random']['tv_many'])}; floor {fact['floor_many']:.4f})",
            self.where,
            None,
            _row(tv),
            tv[-1] <= BAR * tv[0],
        )

    def _pairs(self, id: str, who: str, tv: list[float], fact: Json) -> Claim:
        return Claim(
            id,
            f"{who}: adjacent pairs at 8 ordered steps within {PAIRS}x of the floor "
            f"{fact['pair_floor']:.4f}; at 1/2/4/8 (exact, at random: "
            f"{_row(fact['at random']['pair_tv'])})",
            self.where,
            None,
            _row(tv),
            tv[-1] <= PAIRS * fact["pair_floor"],
        )


def ordered_cell(name: str, scale: Scale) -> Cell:
    """The KL form as the experiment `estimators` trains it, sampled in order."""

    def measure(kernel: Kernel, seed: int) -> Json:
        return in_order(kernel, name, scale, seed)

    return replace(sequence_cell(name, BEST, scale), measure=measure)


def in_order(kernel: Kernel, name: str, scale: Scale, seed: int) -> Json:
    """TV and pair TV at each number of ordered steps."""
    data = law(name)
    g = torch.Generator(kernel.home.device).manual_seed(seed)
    samplers = [OrderedSampler.bisecting(kernel, data.length, k) for k in STEPS]
    samples = [unmasked(sampler, data, many_draws(scale), g) for sampler in samplers]
    return tv_of_each(samples, data, scale)


def _row(values: list[float]) -> str:
    return " ".join(f"{v:.4f}" for v in values)
