"""One-step samples from a joint distribution: flow map against factorised kernel, on the bigram.

The factorised kernel is exact, ``q = p(x1 | x_r)`` from masks: no trained one can be better.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace

import torch

from discrete_meanflow.data import Law
from discrete_meanflow.kernel import ExactPosterior, FlowMapKernel, Kernel
from discrete_meanflow.metric import marginal_tv, pair_tv, sampling_floor
from discrete_meanflow.objective import PosteriorRegression
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import KernelSampler, ODESampler, generate as in_chunks
from discrete_meanflow.training import FlowMapDistillation, Problem, Recipe, sequence_problem
from discrete_meanflow.types import State
from dmf_reproduction.engine.experiment import (
    Cell,
    Claim,
    Experiment,
    Json,
    Scale,
    format_numbers,
    per_seed,
)
from dmf_reproduction.experiments.real_data import sample_file
from dmf_reproduction.experiments.sequence_parts import exact_kernel, generate, law
from dmf_reproduction.metrics import product_pair_tv
from dmf_reproduction.settings import FACTORISED, FLOW_MAP, REAL_STEPS as STEPS

NAMES = ("bigram (8, 16)", "bigram (16, 32)")
DRAWS = 20_000
TEACHER_STEPS = 32  # ODE steps of the teacher pairs
BARS = {"bigram (8, 16)": 0.025}  # for the others, 2.5 times the floor


class Joint(Experiment):
    name = "joint"
    title = "Joint distribution in one step: flow map against masks, one seed"
    where = "beyond the paper: joint distributions"
    claims_summary = (
        "one-step adjacent-pair TV at most 0.025 on bigram (8, 16)",
        "one-step adjacent-pair TV at most 2.5x the floor on bigram (16, 32)",
    )
    of_the_paper = False
    one_seed = True

    def cells(self, scale: Scale) -> list[Cell]:
        return [flow_map_cell(name, scale) for name in _names(scale)]

    def facts(self, scale: Scale) -> Json:
        facts: Json = {"samples": {}}
        for name in _names(scale):
            data = law(name)
            pairs = data.pair_marginals().flatten(1)
            g, draws = torch.Generator().manual_seed(0), _draws(scale)
            factorised = [generate(exact_kernel(data), data, k, draws, g) for k in STEPS]
            facts["samples"] |= _files(FACTORISED, data, factorised)
            facts[name] = {
                "law": repr(data),
                "draws": draws,
                "steps": list(STEPS),
                "pair_floor": sampling_floor(pairs, draws, g, 50).mean().item(),
                "product_pair_tv": product_pair_tv(data),
                "factorised_pair_tv": [pair_tv(y, data, data.vocabulary) for y in factorised],
                # The error of the ODE solver, if the diagonal were learned exactly.
                "exact_flow_pair_tv": pair_tv(exact_flow(data, draws), data, data.vocabulary),
            }
        return facts

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        return [
            claim
            for name, fact in facts.items()
            for claim in self._law_claims(name, fact, cells[f"{name}, {FLOW_MAP}"])
        ]

    def _law_claims(self, name: str, fact: Json, cell: Json) -> list[Claim]:
        tv = [statistics.fmean(values) for values in zip(*per_seed(cell, "pair_tv"), strict=True)]
        bar = BARS.get(name) or 2.5 * fact["pair_floor"]
        steps = " ".join(map(str, STEPS))
        return [
            self.claim(
                f"one-step/{name}",
                f"{name}: one-step adjacent-pair TV at most {bar:.4f} (floor "
                f"{fact['pair_floor']:.4f}, {TEACHER_STEPS} ODE steps of the exact diagonal "
                f"{fact['exact_flow_pair_tv']:.4f}, exact factorised kernel at {steps} steps "
                f"{format_numbers(fact['factorised_pair_tv'])})",
                tv[0],
                tv[0] <= bar,
            ),
            self.claim(
                f"steps/{name}",
                f"{name}: one-step adjacent-pair TV within 2x of 64-step TV; at {steps} steps",
                format_numbers(tv, 4),
                tv[0] <= 2 * tv[-1],
            ),
        ]


def _names(scale: Scale) -> tuple[str, ...]:
    return NAMES if scale is Scale.paper else ("bigram (4, 8)",)


def _draws(scale: Scale) -> int:
    return DRAWS if scale is Scale.paper else 200


def flow_map_problem(data: Law) -> Problem:
    return sequence_problem(data, process=OneHotFlow, objective=PosteriorRegression())


def exact_flow(data: Law, draws: int) -> State:
    """Samples of the exact diagonal's ODE, in as many steps as the teacher pairs take."""
    process, g = OneHotFlow(data.vocabulary), torch.Generator().manual_seed(0)
    flow = ODESampler(FlowMapKernel(ExactPosterior(data, process), process.states), TEACHER_STEPS)
    return torch.cat(list(in_chunks(flow, process, (draws, data.length), g)))


def flow_map_cell(name: str, scale: Scale) -> Cell:
    """A flow-map kernel: the diagonal first, then flow-map distillation."""
    data = law(name)
    problem = flow_map_problem(data)
    recipe = Recipe(20_000, batch=512, learning_rate=1e-3, ema_decay=0.9995, tf32=True)
    then = (FlowMapDistillation(600_000, TEACHER_STEPS, replace(recipe, batch=1024)),)
    if scale is Scale.toy:
        recipe = replace(scale.recipe(recipe), batch=8, iterations=10)
        then = (FlowMapDistillation(100, 2, recipe),)

    def watch(kernels: Sequence[Kernel]) -> dict[str, list[float]]:
        samples = [generate_at(k, data, (1,), _draws(scale) // 4, 0)[0] for k in kernels]
        return {"pair_tv": [pair_tv(y, data, data.vocabulary) for y in samples]}

    def measure(kernel: Kernel, seed: int) -> Json:
        samples = generate_at(kernel, data, STEPS, _draws(scale), seed)
        return {
            "tv": [marginal_tv(y, data, data.vocabulary) for y in samples],
            "pair_tv": [pair_tv(y, data, data.vocabulary) for y in samples],
            "samples": _files(FLOW_MAP, data, samples),
        }

    return Cell(f"{name}, {FLOW_MAP}", problem, recipe, watch, measure, then)


def generate_at(
    kernel: Kernel, data: Law, steps: Sequence[int], draws: int, seed: int
) -> list[State]:
    """Samples at each number of steps."""
    g = torch.Generator(kernel.device).manual_seed(seed)
    source = OneHotFlow(data.vocabulary).source
    return [
        KernelSampler.steps(kernel, k).sample(source((draws, data.length), g), g) for k in steps
    ]


def _files(kind: str, data: Law, samples: Sequence[State]) -> dict[str, list[str]]:
    """The samples at each number of steps, by file name."""
    name = f"{kind}-{data.vocabulary}-{data.length}"
    return {sample_file(name, k): _lines(y) for k, y in zip(STEPS, samples, strict=True)}


def _lines(y: State) -> list[str]:
    """One line for each sequence, one hexadecimal digit for each symbol."""
    return ["".join(f"{symbol:x}" for symbol in row) for row in y.tolist()]
