"""Sequences at (V, D) = (16, 32): training step against an eager loop, one step against many.

    python bench/sequences.py [--device cuda]

Training: the kernel residual of the paper's Transformer under masking (single sample, KL form)
and kernel-CE, on precomputed paths. The baseline is a simple implementation: one seed,
``torch.func.jvp``, AdamW, ``clip_grad_norm_``. Both use TensorFloat-32 on CUDA; times are per seed.
Sampling: 5,000 sequences in 1, 8 and 64 steps of the same kernel.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from discrete_meanflow.data import BigramChain
from discrete_meanflow.objective import KernelCE, KernelResidual, Objective, ResidualKL, SampledRate
from discrete_meanflow.process import PathSample, SequenceProcess
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.training import Problem, Recipe, Trainer, sequence_problem
from measure import RESULTS, eager_step, library_step, record, seconds

SEEDS = [42, 123, 2024]
V, D, DRAWS = 16, 32, 5_000


def eager(problem: Problem, paths: PathSample, device: str) -> float:
    """Seconds per step of the same objective in an eager loop."""
    kernel = problem.build(0).to(device)

    def loss(i: int) -> Tensor:
        return problem.objective(kernel, tree_map(lambda a: a[i, 0], paths))

    return eager_step(kernel, loss, len(paths.x), 3, device)


OBJECTIVES: dict[str, Callable[[SequenceProcess], Objective]] = {
    "KR": lambda process: KernelResidual(SampledRate(process)),
    "KL form": lambda process: ResidualKL(),
    "KCE": lambda process: KernelCE(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    device = options.device
    torch.backends.cuda.matmul.allow_tf32 = True  # for the baseline; the trainer sets its own
    numbers: dict[str, float | int] = {"seeds": len(SEEDS), "batch": 256, "V": V, "D": D}
    steps = 3 if device == "cpu" else 100
    data = BigramChain.dirichlet(V, D)
    for name, objective in OBJECTIVES.items():
        problem = sequence_problem(data, objective=objective)
        trainer = Trainer(problem, Recipe(20_000, tf32=True), SEEDS, device)
        paths = trainer._draw(steps, trainer.generators)
        slow = eager(problem, paths, device)
        fast = library_step(trainer, paths, 3, device)
        numbers |= {
            f"{name}: eager ms per step": 1e3 * slow,
            f"{name}: library ms per step and seed": 1e3 * fast,
            f"{name}: ratio": slow / fast,
        }
    milliseconds = {name: numbers[f"{name}: library ms per step and seed"] for name in OBJECTIVES}
    numbers["KL form over single sample"] = milliseconds["KL form"] / milliseconds["KR"]
    kernel = problem.build(0).to(device)
    masks = torch.full((DRAWS, D), V, device=device)
    g = torch.Generator(device).manual_seed(0)
    one, eight, many = (
        seconds(lambda k=k: KernelSampler.steps(kernel, k).sample(masks, g), repeats, device)
        for k, repeats in ((1, 5), (8, 3), (64, 1))
    )
    numbers |= {
        "sequences sampled": DRAWS,
        "1 step ms": 1e3 * one,
        "8 steps over 1": eight / one,
        "64 steps over 1": many / one,
    }
    command = f"python bench/sequences.py --device {device}"
    record(f"sequences-{device}", device, command, numbers, options.out)


if __name__ == "__main__":
    main()
