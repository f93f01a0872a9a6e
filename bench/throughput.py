"""Tokens a second of soft training and of one-step sampling, against what the device could do.

    python bench/throughput.py [--device cuda] [--sizes 1e6 1e7 1e8]

Text windows of 64 over 27 symbols, diagonal phase. Model FLOPs of a training step: 6 for each
parameter and token, 12 D w for attention in each layer and token (Kaplan et al. 2020), but for what
reads the times, 6 for each parameter, sequence and time that it is at, mostly one; of a sample, a
third. The optimiser's own work is none of them, so the step is timed with AdamW and with Muon, and
then with clamps, too, with which a sequence is at two times: what ``dmf train`` does. The peak is
that of the data sheet for bfloat16 without sparsity; on a CPU, a large matrix product measured in
the same run. A block of training takes longer than its steps would alone: its paths are drawn, on a
GPU beside the steps before, and losses are read back.

A GPU is idle where none of its streams works. It is for at most as long as in a profile, between
the first and the last that it does in some blocks, as the profiler makes gaps longer; and about for
as long as such blocks take without the profiler, less the busy time in it, or somewhat longer, as
the profiler may make kernels longer, too. Most gaps are between the kernels of a step; where the
GPU waits for the host, they are long.
"""

import argparse
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from discrete_meanflow.data import TokenArray
from discrete_meanflow.experiment.real_data import PEAK
from discrete_meanflow.kernel import FlowMapKernel
from discrete_meanflow.model.plan import TRAINING
from discrete_meanflow.model.sizing import SIZING
from discrete_meanflow.network import DiT
from discrete_meanflow.objective import PosteriorRegression
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.times import ClockUniform
from discrete_meanflow.training import Problem, Recipe, Trainer
from side_by_side import RESULTS, library_step, record, seconds

V, D = 27, 64
BLOCK, BLOCKS = 20, 3
LONG_GAP = 10  # microseconds: longer, as a rule, than between the kernels of a captured step


def peak(device: str) -> float:
    if device == "cuda":
        return PEAK[torch.cuda.get_device_name(), "bfloat16"]
    a = torch.randn(2048, 2048)
    return 2 * 2048**3 / seconds(lambda: a @ a, 5)


def network(size: float) -> DiT:
    return DiT.sized(V, D, size)


def flops_per_token(net: DiT, times: int = 1) -> float:
    """Of forward and backward together, with so many times in a sequence."""
    read = sum(p.numel() for part in (net.time, net.modulation) for p in part.parameters())
    parameters = sum(p.numel() for p in net.parameters()) - read + read * times / D
    return 6 * parameters + 12 * len(net.layers) * D * net.width


def recipe(batch: int, device: str, muon: float) -> Recipe:
    bf16 = device == "cuda"
    return Recipe(
        1000, batch, ema_decay=0.999, bf16=bf16, compiled=True, muon_ratio=muon, block=BLOCK
    )


def idle(name: str, work: Callable[[], object], whole: float) -> dict[str, float]:
    """Shares of the time in which a GPU does nothing: of a profile, in all gaps and in long ones;
    and of ``whole``, the seconds that such work takes without the profiler."""
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        work()
        torch.cuda.synchronize()
    spans = [e.time_range for e in seen.events() if e.device_type == DeviceType.CUDA]
    profiled = max(s.end for s in spans) - min(s.start for s in spans)  # microseconds
    found = gaps((s.start, s.end) for s in spans)
    busy, waits = profiled - sum(found), sum(gap for gap in found if gap > LONG_GAP)
    key = f"{name}: share of a block in which the GPU is idle"
    return {
        key: sum(found) / profiled,
        f"{key}, in gaps of over {LONG_GAP} us": waits / profiled,
        f"{key}, by the clock": 1 - busy / 1e6 / whole,
    }


def gaps(spans: Iterable[tuple[float, float]]) -> list[float]:
    """The lengths of what a union of intervals leaves open between its ends."""
    (_, reached), *others = sorted(spans)
    found = []
    for start, end in others:
        if start > reached:
            found.append(start - reached)
        reached = max(reached, end)
    return found


def steps_of(name: str, trainer: Trainer, flops: float, limit: float) -> dict[str, float]:
    """Of an optimiser: tokens a second, and the share of the peak in them."""
    batch, device = trainer.recipe.batch, trainer.device.type
    paths = trainer._draw(BLOCK, trainer.generators)
    pace = batch * D / library_step(trainer, paths, 3, device)
    return {
        f"{name}: training tokens per second": pace,
        f"{name}: share of the peak": pace * flops / limit,
    }


def blocks_of(name: str, trainer: Trainer, pace: float) -> dict[str, float]:
    """Of training as it is done, a block at a time: what it takes beyond its steps."""
    blocks, device = trainer.blocks(), trainer.device.type

    def some() -> None:
        list(itertools.islice(blocks, BLOCKS))

    whole = seconds(some, 3, device)
    alone = BLOCKS * BLOCK * trainer.recipe.batch * D / pace
    found = {f"{name}: share of a block that is beyond its steps": 1 - alone / whole}
    return found | (idle(name, some, whole) if device == "cuda" else {})


def samples_of(name: str, trainer: Trainer, flops: float, limit: float) -> dict[str, float]:
    """Of one step of generation."""
    device, process = trainer.device.type, trainer.problem.process
    assert isinstance(process, OneHotFlow)
    noise = torch.Generator(device).manual_seed(0)
    start = process.source((4 * trainer.recipe.batch, D), noise)
    sampler = KernelSampler(trainer.kernels()[0])

    def sample() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            sampler.sample(start, noise)

    pace = len(start) / seconds(sample, 3, device)
    return {
        f"{name}: one-step samples per second": pace,
        f"{name}: sampling, share of the peak": pace * D * flops / 3 / limit,
    }


def prepared(
    size: float, batch: int, device: str, muon: float, conditioning: float = 0.0
) -> Trainer:
    """Of a network of a size, on random records."""
    g = torch.Generator().manual_seed(0)
    data = TokenArray(torch.randint(V, (10_000, D), generator=g), V)
    problem = Problem(
        OneHotFlow(data, conditioning, SIZING.minibatch_ot),
        ClockUniform(V),
        lambda: FlowMapKernel(network(size), V),
        PosteriorRegression(),
    )
    return Trainer(problem, recipe(batch, device, muon), [0], device)


def measured(size: float, batch: int, device: str, limit: float) -> dict[str, float]:
    """All of it for networks of a size."""
    net = network(size)
    name = f"{sum(p.numel() for p in net.parameters()) / 1e6:.1f}M"
    flops = flops_per_token(net)
    adam = prepared(size, batch, device, muon=0.0)
    found = steps_of(f"{name}, AdamW", adam, flops, limit)
    found |= samples_of(name, adam, flops, limit)
    found |= steps_of(
        f"{name}, Muon", prepared(size, batch, device, SIZING.muon_ratio), flops, limit
    )
    clamped = prepared(size, batch, device, SIZING.muon_ratio, TRAINING.observed_fraction)
    found |= steps_of(f"{name}, Muon, clamps", clamped, flops_per_token(net, times=2), limit)
    pace = found[f"{name}, Muon, clamps: training tokens per second"]
    return found | blocks_of(name, clamped, pace)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e6, 1e7, 1e8])
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    device, batch, limit = given.device, given.batch, peak(given.device)
    numbers: dict[str, float | int] = {"batch": batch, "V": V, "D": D, "peak TFLOP/s": limit / 1e12}
    for size in given.sizes:
        found = measured(size, batch, device, limit)
        print("\n".join(f"{key}: {value:.4g}" for key, value in found.items()), flush=True)
        numbers |= found
    sizes = " ".join(f"{size:g}" for size in given.sizes)
    command = f"python bench/throughput.py --device {device} --sizes {sizes} --batch {batch}"
    record(f"throughput-{device}", device, command, numbers, given.out)


if __name__ == "__main__":
    main()
