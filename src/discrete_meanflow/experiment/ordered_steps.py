"""Several steps that do not hurt: masks lifted in an order instead of at random."""

from dataclasses import replace

import torch

from discrete_meanflow.experiment.base import STEPS, Cell, Claim, Experiment, Json, Scale, mean
from discrete_meanflow.experiment.estimators import BEST
from discrete_meanflow.experiment.sequence_parts import (
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
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.metric import sampling_floor
from discrete_meanflow.sampler import OrderedSampler

BAR = 1.15  # TV at 8 steps over TV at one, as for the estimators
FLOORS = 1.35  # TV of pairs and of the whole at 8 steps over its floor, as for the estimators
NOISE = 1.5  # TV of marginals over its floor that one run of the exact posterior may have


class OrderedSteps(Experiment):
    name = "ordered-steps"
    title = "Composing without loss: masks lifted by bisection, KL form"
    where = "beyond the paper: its open problem"
    promises = (
        "by bisection the exact p(x1 | x_r) has the exact joint law in ceil(log2 D) + 1 steps",
        f"TV of the marginals at 8 steps at most {BAR}x that at one, on coupled data too",
        f"adjacent pairs, and the joint law of (4, 8), within {FLOORS}x of their floors at 8 steps",
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
            cell, exact = cells[f"{name}, {BEST}"], fact["in order"]
            tv = [mean(cell, "tv_many", k) for k in STEPS]
            pairs = [mean(cell, "pair_tv", k) for k in STEPS]
            claims += [
                self._exact(name, fact),
                self._floor(f"exact-pairs/{name}", name, "exact", exact["pair_tv"], fact, "pair"),
                self._steps(name, tv, fact),
                self._floor(f"pairs/{name}", name, BEST, pairs, fact, "pair"),
            ]
            if "joint_floor" in fact:
                joint = [mean(cell, "joint_tv", k) for k in STEPS]
                claims += [
                    self._floor(f"exact-joint/{name}", name, "exact", exact["joint_tv"], fact),
                    self._floor(f"joint/{name}", name, BEST, joint, fact),
                ]
        return claims

    def _exact(self, name: str, fact: Json) -> Claim:
        tv, floor = fact["in order"]["tv_many"], fact["floor_many"]
        return Claim(
            f"exact/{name}",
            f"{name}, exact: TV of marginals at 8 ordered steps within {NOISE}x of the floor "
            f"{floor:.4f}; at 1/2/4/8 (at random: {_row(fact['at random']['tv_many'])})",
            self.where,
            None,
            _row(tv),
            tv[-1] <= NOISE * floor,
        )

    def _steps(self, name: str, tv: list[float], fact: Json) -> Claim:
        return Claim(
            f"steps/{name}",
            f"{name}, {BEST}: TV of marginals at 8 ordered steps at most {BAR}x that at one, from "
            f"{fact['many_draws']:,} samples; at 1/2/4/8",
            self.where,
            None,
            _row(tv),
            tv[-1] <= BAR * tv[0],
        )

    def _floor(
        self, id: str, name: str, who: str, tv: list[float], fact: Json, what: str = "joint"
    ) -> Claim:
        floor = fact[f"{what}_floor"]
        law = "adjacent pairs" if what == "pair" else "the joint law"
        return Claim(
            id,
            f"{name}, {who}: TV of {law} at 8 ordered steps within {FLOORS}x of the floor "
            f"{floor:.4f}; at 1/2/4/8 (exact, at random: "
            f"{_row(fact['at random'][f'{what}_tv'])})",
            self.where,
            None,
            _row(tv),
            tv[-1] <= FLOORS * floor,
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
