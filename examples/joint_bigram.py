"""Compare one-step samples of a factorised kernel and of a flow map on a bigram chain."""

import argparse

import torch

import discrete_meanflow as dmf

V, D = 4, 8  # symbols, positions
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--iterations", type=int, default=1000)
iterations = parser.parse_args().iterations
data = dmf.BigramChain.dirichlet(V, D)  # its law is known exactly
recipe = dmf.Recipe(iterations, learning_rate=2e-3, ema_decay=0.99)


def pair_tv(problem: dmf.Problem, kernel: dmf.Kernel, steps: int, n: int = 10_000) -> float:
    g = torch.Generator().manual_seed(0)
    samples = dmf.KernelSampler.steps(kernel, steps).sample(problem.process.source((n, D), g), g)
    return dmf.pair_tv(samples, data, problem.process.states)


masking = dmf.sequence_problem(
    data,
    kernel=lambda: dmf.BoundaryKernel(dmf.FlatMLP(V + 1, D, 256), V + 1, dmf.schedule.Linear(), V),
)
factorised = dmf.train_kernel(masking, recipe, seed=42)  # independent positions in one step
flow = dmf.sequence_problem(
    data,
    process=dmf.OneHotFlow,
    objective=dmf.PosteriorRegression(),
    kernel=lambda: dmf.FlowMapKernel(dmf.FlatMLP(V, D, 256), V),
)
teacher = dmf.train_kernel(flow, recipe, seed=42)  # learns the diagonal: good in many steps
stage = dmf.FlowMapDistillation(pairs=50 * iterations, steps=16, recipe=recipe)
student = dmf.train_kernel(stage.problem(flow, teacher, seed=42), recipe, seed=42, start=teacher)
print("adjacent-pair TV (lower is better)   1 step   16 steps")
rows = {"factorised": (masking, factorised), "teacher": (flow, teacher), "student": (flow, student)}
for name, row in rows.items():
    print(f"{name:<36} {pair_tv(*row, 1):6.3f}   {pair_tv(*row, 16):6.3f}")
