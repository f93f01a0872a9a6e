"""The numbers that the page shows of a finite chain."""

import torch

from discrete_meanflow.ctmc import identity_residual, mean_rate, transition
from discrete_meanflow.explore.questions import ChainQuestion
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.metric import sampling_floor, total_variation
from discrete_meanflow.metric.divergence import frequencies
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.sampler import KernelSampler

POINTS = 65  # times of the flow


def chain_view(question: ChainQuestion, kernel: Kernel | None) -> Json:
    """Exact and learned kernel, mean rate, residual, flow of mass and one-step samples.

    Matrices are lists of rows ``[y][x]``. Without a learned kernel its numbers are None.
    """
    generator, r, t = question.generator, question.r, question.t
    exact = transition(generator, r, t)
    times = torch.linspace(r, 1, POINTS, dtype=torch.float64)
    residual = identity_residual(generator, r, t)
    view: Json = {
        "exact": exact.tolist(),
        "mean rate": mean_rate(generator, r, t).tolist(),
        "exact residual": residual.abs().max().item(),
        "times": times.tolist(),
        "exact flow": transition(generator, r, times)[..., question.start].tolist(),
        "learned": None,
    }
    if kernel is not None:
        view["learned"] = learned_view(question, kernel, times)
    return view


@torch.no_grad()
def learned_view(question: ChainQuestion, kernel: Kernel, times: torch.Tensor) -> Json:
    """The numbers of the learned kernel."""
    generator, r, t, start = question.generator, question.r, question.t, question.start
    exact, learned = transition(generator, r, t), kernel.matrix(r, t).double()
    residual = identity_residual(generator, r, t, lambda r, t: kernel.matrix(r, t).double())
    g = torch.Generator().manual_seed(question.seed)
    states = torch.full((question.draws,), start)
    samples = frequencies(KernelSampler(kernel, (r, t)).sample(states, g), generator.states)
    law = exact[:, start].clamp(min=0)
    return {
        "kernel": learned.tolist(),
        "difference": (learned - exact).tolist(),
        "residual": residual.tolist(),
        "flow": kernel.matrix(r, times)[..., start].tolist(),
        "samples": samples.tolist(),
        "tv": total_variation(samples, law).item(),
        "floor": sampling_floor(law, question.draws, g).item(),
    }
