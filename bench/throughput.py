"""Tokens a second of soft training and of one-step sampling, against what the device could do.

    python bench/throughput.py [--device cuda] [--sizes 1e6 1e7 1e8]

Text windows of 64 over 27 symbols, diagonal phase. Model FLOPs of a training step: 6 for each
parameter and token, 12 D w for attention in each layer and token (Kaplan et al. 2020), but for what
reads the times, which are one for all positions, 6 for each parameter and sequence; of a sample, a
third. The optimiser's own work is none of them, so the step is timed with AdamW and with Muon,
which is what ``dmf train`` takes. The peak is that of the data sheet for bfloat16 without
sparsity; on a CPU, a large matrix product measured in the same run. What a block of training takes
beyond its steps (drawing and matching its paths, reading back losses), the network waits for; a GPU
does most of that, too, and is idle for less.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from discrete_meanflow.data import TokenArray
from discrete_meanflow.experiment.real_data import PEAK
from discrete_meanflow.kernel import SoftKernel
from discrete_meanflow.network import AdaptiveTransformer
from discrete_meanflow.objective import PosteriorRegression
from discrete_meanflow.onestep.plan import MATCHED, MUON
from discrete_meanflow.process import Soft
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.times import TauUniform
from discrete_meanflow.training import Problem, Recipe, Trainer
from side_by_side import RESULTS, library_step, record, seconds

V, D = 27, 64
BLOCK = 20


def peak(device: str) -> float:
    if device == "cuda":
        return PEAK[torch.cuda.get_device_name(), "bfloat16"]
    a = torch.randn(2048, 2048)
    return 2 * 2048**3 / seconds(lambda: a @ a, 5)


def network(size: float) -> AdaptiveTransformer:
    return AdaptiveTransformer.sized(V, D, size)


def flops_per_token(net: AdaptiveTransformer) -> float:
    """Of forward and backward together."""
    once = sum(p.numel() for part in (net.time, net.modulation) for p in part.parameters())
    parameters = sum(p.numel() for p in net.parameters()) - once + once / D
    return 6 * parameters + 12 * len(net.layers) * D * net.width


def recipe(batch: int, device: str, muon: float) -> Recipe:
    bf16 = device == "cuda"
    return Recipe(1000, batch, average=0.999, bf16=bf16, compiled=True, muon=muon, block=BLOCK)


def busy(work: Callable[[], object]) -> float:
    """Seconds that a GPU works in a call."""
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        work()
        torch.cuda.synchronize()
    events = [e for e in seen.key_averages() if e.device_type == DeviceType.CUDA]
    return sum(e.self_device_time_total for e in events) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e6, 1e7, 1e8])
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    device, batch = given.device, given.batch
    g = torch.Generator().manual_seed(0)
    data = TokenArray(torch.randint(V, (10_000, D), generator=g), V)
    limit = peak(device)
    numbers: dict[str, float | int] = {"batch": batch, "V": V, "D": D, "peak TFLOP/s": limit / 1e12}
    for size in given.sizes:
        net = network(size)
        name = f"{sum(p.numel() for p in net.parameters()) / 1e6:.1f}M"
        problem = Problem(
            Soft(data, matched=MATCHED),
            TauUniform(V),
            lambda size=size: SoftKernel(network(size), V),
            PosteriorRegression(),
        )
        trainers = {
            optimiser: Trainer(problem, recipe(batch, device, muon), [0], device)
            for optimiser, muon in (("AdamW", 0.0), ("Muon", MUON))
        }
        for optimiser, trainer in trainers.items():
            paths = trainer._draw(BLOCK, trainer.generators)
            step = library_step(trainer, paths, 3, device)
            numbers |= {
                f"{name}, {optimiser}: training tokens per second": batch * D / step,
                f"{name}, {optimiser}: share of the peak": batch * D * flops_per_token(net)
                / step / limit,
            }  # fmt: skip
        blocks = trainer.blocks()  # of the last, as it is trained
        next(blocks)
        whole = seconds(lambda blocks=blocks: next(blocks), 3, device) / BLOCK
        if device == "cuda":
            key = f"{name}: share of a block in which the GPU is idle"
            numbers[key] = 1 - busy(lambda blocks=blocks: next(blocks)) / BLOCK / whole
        kernel = trainer.kernels()[0]
        noise = torch.Generator(device).manual_seed(0)
        start = problem.process.source((4 * batch, D), noise)

        def sample(kernel=kernel, start=start, noise=noise) -> None:
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                KernelSampler(kernel).sample(start, noise)

        one = seconds(sample, 3, device)
        numbers |= {
            f"{name}: share of a block in which no step runs": 1 - step / whole,
            f"{name}: one-step samples per second": len(start) / one,
            f"{name}: sampling, share of the peak": len(start) * D * flops_per_token(net) / 3
            / one / limit,
        }  # fmt: skip
    sizes = " ".join(f"{size:g}" for size in given.sizes)
    command = f"python bench/throughput.py --device {device} --sizes {sizes} --batch {batch}"
    record(f"throughput-{device}", device, command, numbers, given.out)


if __name__ == "__main__":
    main()
