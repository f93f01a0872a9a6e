"""The library's training step against an eager loop of the same mathematics.

    python bench/training_step.py [--device cuda]

Both train the paper's kernel for the 10-state birth-death chain with the single-sample
objective, on precomputed paths. The baseline is a simple implementation: one seed, an
``nn.Module``, ``torch.func.jvp``, AdamW, ``clip_grad_norm_``. Times are per seed.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from discrete_meanflow.ctmc import chains
from discrete_meanflow.kernel import BoundaryKernel, Kernel
from discrete_meanflow.network import MLP
from discrete_meanflow.objective import KernelResidual, SampledRate
from discrete_meanflow.path import ChainPaths
from discrete_meanflow.process import ChainProcess, PathSample
from discrete_meanflow.schedule import Exponential
from discrete_meanflow.times import UniformGap
from discrete_meanflow.training import Problem, Recipe, Trainer
from measure import RESULTS, eager_step, library_step, record

SEEDS = [42, 123, 2024]
STEPS = 100


class Gated(MLP):
    """A network outside the library: layer norm and gating around the layers of the MLP."""

    def __init__(self, states: int) -> None:
        super().__init__(states)
        self.norm = nn.LayerNorm(128)
        self.gate = nn.Linear(states + 64, 128)

    def forward(self, x, r, t):
        first = torch.cat([x, self.embed(r), self.embed(t)], -1)
        hidden = self.layers[1](self.layers[0](first)) * self.gate(first).sigmoid()
        return self.layers[2:](self.norm(hidden))


def eager(problem: Problem, paths: PathSample, device: str) -> float:
    """Seconds per step of the explicit residual in an eager loop."""
    kernel: Kernel = problem.kernel().to(device)
    assert isinstance(problem.process, ChainProcess)
    columns = problem.process.columns.float()

    def loss(i: int) -> Tensor:
        path = tree_map(lambda a: a[i, 0], paths)
        _, dK_dt = torch.func.jvp(
            lambda t: kernel.probs(path.x, path.r, t), (path.t,), (torch.ones_like(path.t),)
        )
        return (dK_dt - columns[path.y[:, 0]]).square().sum(-1).mean()

    return eager_step(kernel, loss, STEPS, 5, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    u = chains.birth_death()
    numbers: dict[str, float | int] = {
        "seeds": len(SEEDS),
        "batch": 256,
        "threads": torch.get_num_threads(),
    }
    for name, network in (("mlp", MLP), ("gated", Gated)):
        process = ChainProcess(u)
        problem = Problem(
            ChainPaths(process, UniformGap(0.01)),
            lambda network=network: BoundaryKernel(network(u.states), u.states, Exponential.of(u)),
            KernelResidual(SampledRate(process)),
        )
        trainer = Trainer(problem, Recipe(30_000), SEEDS, options.device)
        paths = trainer._draw(STEPS, trainer.generators)
        slow = eager(problem, paths, options.device)
        fast = library_step(trainer, paths, 5, options.device)
        numbers |= {
            f"{name}: eager ms per step": 1e3 * slow,
            f"{name}: library ms per step and seed": 1e3 * fast,
            f"{name}: ratio": slow / fast,
        }
    command = f"python bench/training_step.py --device {options.device}"
    record(f"training-step-{options.device}", options.device, command, numbers, options.out)


if __name__ == "__main__":
    main()
