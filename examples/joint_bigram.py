"""Compare one-step samples of a factorised kernel and of a flow map on a bigram chain."""

import argparse

import torch

import discrete_meanflow as dmf

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--iterations", type=int, default=2000)
options = parser.parse_args()

data = dmf.BigramChain.dirichlet(4, 8)  # 4 symbols, 8 positions; the law is known exactly
recipe = dmf.Recipe(options.iterations, batch=128, learning_rate=1e-3, ema_decay=0.99)


def pair_tv(problem, kernel, steps, n=10_000):
    """Total variation of adjacent pairs to the exact law, from n samples."""
    g = torch.Generator().manual_seed(0)
    samples = dmf.KernelSampler.steps(kernel, steps).sample(problem.process.source((n, 8), g), g)
    return dmf.pair_tv(samples, data, problem.process.states)


masking = dmf.sequence_problem(data)  # discrete states: positions are independent in one step
factorised = dmf.train_kernel(masking, recipe, seed=42)
flow = dmf.sequence_problem(data, process=dmf.OneHotFlow, objective=dmf.PosteriorRegression())
teacher = dmf.train_kernel(flow, recipe, seed=42)  # the diagonal: good in many steps
stage = dmf.FlowMapDistillation(pairs=20 * options.iterations, steps=16, recipe=recipe)
distillation = stage.problem(flow, teacher, seed=42)
student = dmf.train_kernel(distillation, recipe, seed=42, start=teacher)

print("adjacent-pair TV (lower is better)   1 step   16 steps")
rows = {"factorised": (masking, factorised), "teacher": (flow, teacher), "student": (flow, student)}
for name, (problem, kernel) in rows.items():
    one, many = (pair_tv(problem, kernel, steps) for steps in (1, 16))
    print(f"{name:<36} {one:6.3f}   {many:6.3f}")
