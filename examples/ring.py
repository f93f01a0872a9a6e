"""Learn the transition kernel of a 3-state ring and sample it in one step."""

import argparse

import torch

import discrete_meanflow as dmf

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--iterations", type=int, default=1000)
options = parser.parse_args()

u = dmf.ctmc.ring()  # rates u(y, x): 2 forward, 1 backward
recipe = dmf.Recipe(options.iterations, learning_rate=2e-3)
kernel = dmf.train_kernel(dmf.chain_problem(u), recipe, seed=42)

learned, exact = kernel.matrix(0, 1), dmf.transition(u, 0, 1)  # K[y, x]; columns sum to 1
print("P(X_1 = y | X_0 = 0), exact:  ", [round(p, 4) for p in exact[:, 0].tolist()])
print("P(X_1 = y | X_0 = 0), learned:", [round(p, 4) for p in learned[:, 0].tolist()])
print(f"largest error over all x and y: {(learned - exact).abs().max():.1e}")

g = torch.Generator().manual_seed(0)
samples = dmf.KernelSampler(kernel).sample(torch.zeros(5000, dtype=torch.long), g)
frequencies = torch.bincount(samples, minlength=3) / len(samples)
print("frequencies of 5,000 one-step samples:", [round(p, 3) for p in frequencies.tolist()])
