"""One step with the right joint law: the soft kernel beside the factorised one, on the bigram.

The factorised kernel is the exact one, ``q = p(x1 | x_r)`` from masks: however well one is trained,
it can do no better.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import torch

from discrete_meanflow.data import Law
from discrete_meanflow.kernel import FlowMapKernel, Kernel
from discrete_meanflow.metric import marginal_tv, pair_tv, sampling_floor
from discrete_meanflow.metric.sequences import product_pair_tv
from discrete_meanflow.objective import PosteriorRegression
from discrete_meanflow.process import ExactPosterior, OneHotFlow
from discrete_meanflow.sampler import KernelSampler, ODESampler
from discrete_meanflow.training import FlowMapDistillation, Problem, Recipe, sequence_problem
from discrete_meanflow.types import State
from dmf_reproduction.engine.experiment import Cell, Claim, Experiment, Json, Scale, in_words
from dmf_reproduction.experiments.real_data import cost
from dmf_reproduction.experiments.sequence_parts import exact_kernel, generate, law

NAMES = ("bigram (8, 16)", "bigram (16, 32)")
STEPS = (1, 2, 4, 8, 16, 64)
DRAWS = 20_000
COUPLE_STEPS = 32
LOT = 5_000  # samples at a time
BARS = {"bigram (8, 16)": 0.025, "bigram (16, 32)": None}  # None: 2.5 times the floor


class Joint(Experiment):
    name = "joint"
    title = "One-step samples with the right joint law: soft states against masks, one seed"
    where = "beyond the paper: its limit"
    claims_summary = (
        "adjacent-pair TV of one soft step at most 0.025 on bigram (8, 16)",
        "at most 2.5x the floor on bigram (16, 32)",
    )
    of_the_paper = False
    one_seed = True

    def cells(self, scale: Scale) -> list[Cell]:
        names = NAMES if scale is Scale.paper else ("bigram (4, 8)",)
        return [soft_cell(name, scale) for name in names]

    def facts(self, scale: Scale) -> Json:
        facts: Json = {"samples": {}}
        for name in NAMES if scale is Scale.paper else ("bigram (4, 8)",):
            data = law(name)
            pairs = data.pair_marginals().flatten(1)
            g, draws = torch.Generator().manual_seed(0), _draws(scale)
            hard = [generate(exact_kernel(data), data, k, draws, g) for k in STEPS]
            facts["samples"] |= _files("factorised", data, hard)
            facts[name] = {
                "law": repr(data),
                "draws": draws,
                "steps": list(STEPS),
                "pair_floor": sampling_floor(pairs, draws, g, 50).mean().item(),
                "product_pair_tv": product_pair_tv(data),
                "factorised_pair_tv": [pair_tv(y, data, data.vocabulary) for y in hard],
                # What the steps of couples miss, were the diagonal learned exactly.
                "exact_flow_pair_tv": pair_tv(exact_flow(data, draws), data, data.vocabulary),
                "flops_over_diagonal": cost(soft_problem(data).build(0), OneHotFlow(data))[
                    "flops_over_diagonal"
                ],
            }
        return facts

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        claims = []
        for name, fact in facts.items():
            soft = cells[f"{name}, soft"]
            found = [_mean_at(soft, i) for i in range(len(STEPS))]
            bar = BARS.get(name) or 2.5 * fact["pair_floor"]
            claims += [
                Claim(
                    f"one-step/{name}",
                    f"{name}: adjacent-pair TV of one soft step at most {bar:.4f} (floor "
                    f"{fact['pair_floor']:.4f}, {COUPLE_STEPS} steps of the exact diagonal "
                    f"{fact['exact_flow_pair_tv']:.4f}, the exact factorised kernel "
                    f"at {' '.join(map(str, STEPS))} steps {in_words(fact['factorised_pair_tv'])})",
                    self.where,
                    None,
                    found[0],
                    found[0] <= bar,
                ),
                Claim(
                    f"steps/{name}",
                    f"{name}: one step within 2x of 64; at {'/'.join(map(str, STEPS))} steps",
                    self.where,
                    None,
                    " ".join(f"{v:.4f}" for v in found),
                    found[0] <= 2 * found[-1],
                ),
                Claim(
                    f"cost/{name}",
                    f"{name}: one step costs at most 1.1x the operations of a look at the diagonal",
                    self.where,
                    None,
                    f"{fact['flops_over_diagonal']:.2f}x",
                    fact["flops_over_diagonal"] <= 1.1,
                ),
            ]
        return claims


def _draws(scale: Scale) -> int:
    return DRAWS if scale is Scale.paper else 200


def _mean_at(cell: Json, i: int) -> float:
    values = [m["pair_tv"][i] for m in cell["measurements"]]
    return sum(values) / len(values)


def soft_problem(data: Law) -> Problem:
    return sequence_problem(data, process=OneHotFlow, objective=PosteriorRegression())


def exact_flow(data: Law, draws: int) -> State:
    """Where noise is carried in as many steps as couples take, by the exact diagonal."""
    process, g = OneHotFlow(data), torch.Generator().manual_seed(0)
    flow = ODESampler(FlowMapKernel(ExactPosterior(process), process.states), COUPLE_STEPS)
    starts = process.source((draws, data.length), g).split(LOT)
    return torch.cat([flow.kernel.decode(deque(flow.trajectory(x), maxlen=1)[0]) for x in starts])


def soft_cell(name: str, scale: Scale) -> Cell:
    """A soft kernel: the diagonal first, then where it carries noise in many steps."""
    data = law(name)
    problem = soft_problem(data)
    recipe = Recipe(20_000, batch=512, learning_rate=1e-3, ema_decay=0.9995, tf32=True)
    then = (FlowMapDistillation(600_000, COUPLE_STEPS, replace(recipe, batch=1024)),)
    if scale is Scale.toy:
        recipe = replace(scale.recipe(recipe), batch=8, iterations=10)
        then = (FlowMapDistillation(100, 2, recipe),)

    def watch(kernels: Sequence[Kernel]) -> dict[str, list[float]]:
        few = _draws(scale) // 4
        found = [samples_of(k, data, (1,), few, 0)[0] for k in kernels]
        return {"pair_tv": [pair_tv(y, data, data.vocabulary) for y in found]}

    def measure(kernel: Kernel, seed: int) -> Json:
        found = samples_of(kernel, data, STEPS, _draws(scale), seed)
        return {
            "tv": [marginal_tv(y, data, data.vocabulary) for y in found],
            "pair_tv": [pair_tv(y, data, data.vocabulary) for y in found],
            "samples": _files("soft", data, found),
        }

    return Cell(f"{name}, soft", problem, recipe, watch, measure, then)


def samples_of(
    kernel: Kernel, data: Law, steps: Sequence[int], draws: int, seed: int
) -> list[State]:
    """Samples at each number of steps."""
    g = torch.Generator(kernel.home.device).manual_seed(seed)
    source = OneHotFlow(data).source
    return [
        KernelSampler.steps(kernel, k).sample(source((draws, data.length), g), g) for k in steps
    ]


def _files(kind: str, data: Law, found: Sequence[State]) -> dict[str, list[str]]:
    """Samples of a kernel by the names of their files, at each number of steps."""
    law = f"{data.vocabulary}-{data.length}"
    return {f"{kind}-{law}-{k}.txt.gz": _written(y) for k, y in zip(STEPS, found, strict=True)}


def _written(y: State) -> list[str]:
    """A line a sequence, a hexadecimal digit a symbol."""
    return ["".join(f"{symbol:x}" for symbol in row) for row in y.tolist()]
