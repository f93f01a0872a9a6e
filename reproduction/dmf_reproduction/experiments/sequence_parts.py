"""Shared parts of the experiments on sequences: the paper's data, settings and metrics."""

import copy
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from discrete_meanflow.data import BigramChain, IndependentCategorical, Law
from discrete_meanflow.kernel import BoundaryKernel, ExactPosterior, Kernel
from discrete_meanflow.metric import marginal_tv, pair_tv, sampling_floor, total_variation
from discrete_meanflow.metric.divergence import marginals
from discrete_meanflow.objective import (
    KernelCE,
    KernelResidual,
    Objective,
    PosteriorRegression,
    RaoBlackwell,
    ResidualKL,
    SampledRate,
    hybrid,
    remaining_time,
)
from discrete_meanflow.process import Masking, SequenceProcess
from discrete_meanflow.sampler import KernelSampler, Sampler
from discrete_meanflow.schedule import Linear
from discrete_meanflow.times import UniformGap
from discrete_meanflow.training import Problem, Recipe, sequence_problem
from discrete_meanflow.training.sequence_problem import GAP
from dmf_reproduction.engine.experiment import Cell, Json, Scale
from dmf_reproduction.metrics import (
    marginal_cross_entropy,
    product_pair_tv,
    sequence_index,
    state_fraction,
    token_accuracy,
)
from dmf_reproduction.settings import STEPS

SIZES = ((4, 8), (8, 16), (16, 32))
LAW_SEED = 0  # seed of every synthetic law: numpy.random.default_rng(0)
SECOND_CONCENTRATION = 1.0  # the second Dirichlet concentration for the rows of the bigram
DRAWS, MANY = 5_000, 100_000  # the paper's number of samples; enough to resolve small changes
COUNTED = 100_000  # largest number of sequences for which the joint TV is computed
CHUNK = 10_000  # sequences generated at once


def law(name: str) -> Law:
    """The law of a configuration such as ``independent (4, 8)`` or ``bigram 1.0 (8, 16)``."""
    kind, _, size = name.partition(" (")
    vocabulary, length = (int(n) for n in size.rstrip(")").split(", "))
    if kind == "independent":
        return IndependentCategorical.dirichlet(vocabulary, length, 0.1, LAW_SEED)
    concentration = SECOND_CONCENTRATION if kind.endswith("1.0") else 0.1
    return BigramChain.dirichlet(vocabulary, length, concentration, LAW_SEED)


def configurations(scale: Scale, kinds: Sequence[str] = ("independent", "bigram")) -> list[str]:
    """The paper's six, or the smallest of each kind at toy scale."""
    sizes = SIZES if scale is Scale.paper else SIZES[:1]
    return [f"{kind} ({v}, {d})" for kind in kinds for v, d in sizes]


def iterations(data: Law) -> int:
    size = data.vocabulary * data.length
    return 12_000 if size <= 64 else 15_000 if size <= 256 else 20_000


def _hybrid(weight: float) -> Callable[[SequenceProcess], Objective]:
    return lambda process: hybrid(KernelResidual(SampledRate(process)), KernelCE(), weight)


OBJECTIVES: dict[str, Callable[[SequenceProcess], Objective]] = {
    "KR": lambda process: KernelResidual(SampledRate(process)),
    "KR, 8 samples": lambda process: KernelResidual(SampledRate(process, 8)),
    "KR, Rao-Blackwell": lambda process: KernelResidual(RaoBlackwell(process)),
    "KR, weighted": lambda process: KernelResidual(RaoBlackwell(process), weight=remaining_time),
    "KR, KL form": lambda process: ResidualKL(),
    "PR": lambda process: PosteriorRegression(),
    "PR, batch 256": lambda process: PosteriorRegression(),
    "KCE": lambda process: KernelCE(),
    "KR + 0.1 CE": _hybrid(0.1),
    "KR + 1 CE": _hybrid(1.0),
    "KR + 10 CE": _hybrid(10.0),
}


def sequence_cell(configuration: str, objective: str, scale: Scale, end: float = 1.0) -> Cell:
    """A cell at the paper's settings; ``end`` is the largest training time t."""
    data = law(configuration)
    problem = sequence_problem(
        data,
        objective=OBJECTIVES[objective],
        times=UniformGap(GAP, end) if end < 1 else None,
        diagonal_network=objective.startswith("PR"),
    )
    recipe = Recipe(iterations(data), batch=128 if objective == "PR" else 256, tf32=True)
    if scale is Scale.toy:
        recipe = replace(scale.recipe(recipe), batch=8, iterations=10)

    def watch(kernels: Sequence[Kernel]) -> dict[str, list[float]]:
        values = {"exact_tv": [exact_tv(kernel, configuration) for kernel in kernels]}
        if isinstance(problem.objective, ResidualKL):
            values["clipped"] = [clipped(problem, problem.objective, k) for k in kernels]
        return values

    def measure(kernel: Kernel, seed: int) -> Json:
        return {"exact_tv": exact_tv(kernel, configuration), **sampled(kernel, data, scale, seed)}

    name = f"{configuration}, {objective}" + (f", t <= {end:g}" if end < 1 else "")
    return Cell(name, problem, recipe, watch, measure)


@torch.no_grad()
def clipped(problem: Problem, objective: ResidualKL, kernel: Kernel) -> float:
    """The fraction of positions at which the KL form clips its target, on 1,000 new paths."""
    device = kernel.device
    path = problem.sample((1000,), torch.Generator(device).manual_seed(0))
    return objective.clipped(kernel, path).item()


@torch.no_grad()
def exact_tv(kernel: Kernel, configuration: str) -> float:
    """Mean TV between the one-step probabilities and the true marginals, in float64."""
    truth = _truth(configuration)
    exact = copy.deepcopy(kernel).double()
    device = exact.device
    states = truth.shape[-1]
    masks = torch.full((1, len(truth)), states - 1, device=device)
    zero = torch.zeros(1, 1, dtype=torch.float64, device=device)
    return total_variation(exact.probs(masks, zero, zero + 1)[0].cpu(), truth).mean().item()


@cache
def _truth(configuration: str) -> Tensor:
    data = law(configuration)
    return marginals(data, data.vocabulary + 1)


def generate(kernel: Kernel, data: Law, steps: int, draws: int, g: torch.Generator) -> Tensor:
    """Sequences ``(draws, D)`` from all masks, in equal steps."""
    return unmasked(KernelSampler.steps(kernel, steps), data, draws, g)


@torch.no_grad()
def unmasked(sampler: Sampler, data: Law, draws: int, g: torch.Generator) -> Tensor:
    """Sequences ``(draws, D)`` that a sampler generates from all masks."""
    sizes = [CHUNK] * (draws // CHUNK) + [draws % CHUNK] * (draws % CHUNK > 0)
    masks = [torch.full((n, data.length), data.vocabulary, device=g.device) for n in sizes]
    return torch.cat([sampler.sample(x, g) for x in masks])


def sampled(kernel: Kernel, data: Law, scale: Scale, seed: int) -> Json:
    """The paper's sample metrics at each number of steps."""
    device = kernel.device
    states = data.vocabulary + 1
    metrics: Json = {key: [] for key in ("tv", "tv_many", "pair_tv", "masked")}
    for steps in STEPS:
        g = torch.Generator(device).manual_seed(seed)
        y = generate(kernel, data, steps, scale.draws(DRAWS), g)
        metrics["tv"].append(marginal_tv(y, data, states))
        metrics["pair_tv"].append(pair_tv(y, data, states))
        metrics["masked"].append(state_fraction(y, data.vocabulary))
        many = generate(kernel, data, steps, many_draws(scale), g)
        metrics["tv_many"].append(marginal_tv(many, data, states))
        if steps == 1:
            fresh = data.to(device).sample((len(y),), g)
            metrics["accuracy"] = token_accuracy(y, fresh)
            metrics["cross_entropy"] = marginal_cross_entropy(y, data, states)
    return metrics


def composed_exactly(name: str, scale: Scale) -> Json:
    """TV and pair TV at each number of steps of the exact ``q = p(x1 | x_r)``.

    Positions are sampled independently within a step. The first of several steps can unmask
    combinations that do not occur in the data, and the posterior given them is wrong: iterating
    costs marginal accuracy even for an exact denoiser. Pairs still improve.
    """
    data = law(name)
    kernel, g = exact_kernel(data), torch.Generator().manual_seed(0)
    samples = [generate(kernel, data, steps, many_draws(scale), g) for steps in STEPS]
    return tv_of_each(samples, data, scale)


def exact_kernel(data: Law) -> BoundaryKernel:
    """The target of training under masking: ``q = p(x1 | x_r)``."""
    process = Masking(data.vocabulary)
    network = ExactPosterior(data, process)
    return BoundaryKernel(network, process.states, Linear(), process.token)


def tv_of_each(samples: Sequence[Tensor], data: Law, scale: Scale) -> Json:
    """TV of marginals from all samples, of adjacent pairs from the paper's number of samples, and
    of whole sequences from all samples where the joint law is small enough to enumerate."""
    states, joint = data.vocabulary + 1, joint_law(data)
    whole = {} if joint is None else {"joint_tv": [joint_tv(y, joint, data) for y in samples]}
    return whole | {
        "tv_many": [marginal_tv(y, data, states) for y in samples],
        "pair_tv": [pair_tv(y[: scale.draws(DRAWS)], data, states) for y in samples],
    }


def joint_law(data: Law) -> Tensor | None:
    """The probability of each of the V^D sequences in lexicographic order; None if too many."""
    if data.vocabulary**data.length > COUNTED:
        return None
    places = torch.arange(data.vocabulary).expand(data.length, -1)
    return data.log_prob(torch.cartesian_prod(*places)).exp()


def joint_tv(y: Tensor, joint: Tensor, data: Law) -> float:
    """TV between frequencies of whole sequences and their law; masked ones count as errors."""
    y = y.cpu()
    whole = y[(y < data.vocabulary).all(-1)]
    seen = torch.bincount(sequence_index(whole, data.vocabulary), minlength=len(joint)) / len(y)
    return (seen - joint).clamp(min=0).sum().item() + 1 - len(whole) / len(y)


def many_draws(scale: Scale) -> int:
    return MANY if scale is Scale.paper else 100


def sequence_facts(names: Sequence[str], scale: Scale) -> Json:
    """For each configuration: the sampling floors and the scores of draws from the data."""
    facts: Json = {}
    for name in names:
        data = law(name)
        g = torch.Generator().manual_seed(0)
        p, pairs = data.marginals(), data.pair_marginals().flatten(1)
        facts[name] = {
            "law": repr(data),
            "draws": scale.draws(DRAWS),
            "floor": sampling_floor(p, scale.draws(DRAWS), g).mean().item(),
            "many_draws": many_draws(scale),
            "floor_many": sampling_floor(p, many_draws(scale), g).mean().item(),
            "pair_floor": sampling_floor(pairs, scale.draws(DRAWS), g, 50).mean().item(),
            "product_pair_tv": product_pair_tv(data),
            "accuracy": p.square().sum(-1).mean().item(),
            "cross_entropy": -torch.special.xlogy(p, p).sum(-1).mean().item(),
        }
    return facts


def mean_and_spread(values: Sequence[float], digits: str = ".2f") -> str:
    """``1.23 ± 0.04``."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):{digits}} ± {spread:{digits}}"
