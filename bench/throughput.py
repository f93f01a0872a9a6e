"""Training tokens per second and one-step samples per second, relative to the device's peak.

    python bench/throughput.py [--device cuda] [--sizes 1e6 1e7 1e8]

Text windows of 64 positions over 27 symbols, first training stage. Model FLOPs of a training step:
6 per parameter and token, and 12 D w per layer and token for attention (Kaplan et al., 2020). The
time embedding and modulation cost 6 per parameter, sequence and time instead of per token. A sample
costs a third. The optimiser's own work is not counted, so the step is timed with AdamW, with Muon,
and with Muon and observed positions, where a sequence has two times: the settings of
``dmf train``. The peak is that of the data sheet for bfloat16 without sparsity; on a CPU, a large
matrix product measured in the same run. A block of training takes longer than its steps: its paths
are drawn, on a GPU in parallel to the previous steps, and losses are read back.

A GPU is idle when none of its streams works. A profile gives an upper bound, because the profiler
lengthens gaps. The wall time of the same blocks without the profiler, minus the busy time in the
profile, gives an estimate that may be too low, because the profiler lengthens kernels too. Most
gaps lie between the kernels of a step; gaps in which the GPU waits for the host are long.
"""

import argparse
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from discrete_meanflow.data import TokenArray
from discrete_meanflow.kernel import FlowMapKernel
from discrete_meanflow.model.plan import OBSERVED_FRACTION
from discrete_meanflow.model.sizing import MINIBATCH_OT, MUON_RATIO
from discrete_meanflow.network import DiT
from discrete_meanflow.objective import PosteriorRegression
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.times import ClockUniform
from discrete_meanflow.training import Problem, Recipe, Trainer
from measure import RESULTS, library_step, record, seconds

V, D = 27, 64
BLOCK, BLOCKS = 20, 3
LONG_GAP = 10  # microseconds: longer than usual between the kernels of a captured step
PEAK = {"NVIDIA H200": 989e12}  # dense bfloat16 FLOP/s of the data sheet


def peak(device: str) -> float:
    if device == "cuda":
        return PEAK[torch.cuda.get_device_name()]
    a = torch.randn(2048, 2048)
    return 2 * 2048**3 / seconds(lambda: a @ a, 5)


def network(size: float) -> DiT:
    return DiT.sized(V, D, size)


def flops_per_token(net: DiT, times: int = 1) -> float:
    """Forward and backward, with ``times`` distinct times per sequence."""
    timed = sum(p.numel() for part in (net.time, net.modulation) for p in part.parameters())
    parameters = sum(p.numel() for p in net.parameters()) - timed + timed * times / D
    return 6 * parameters + 12 * len(net.layers) * D * net.width


def recipe(batch: int, device: str, muon: float) -> Recipe:
    bf16 = device == "cuda"
    return Recipe(
        1000, batch, ema_decay=0.999, bf16=bf16, compiled=True, muon_ratio=muon, block=BLOCK
    )


def idle(name: str, work: Callable[[], object], whole: float) -> dict[str, float]:
    """Fractions of the time in which the GPU is idle: in a profile (all gaps, long gaps), and by
    the clock, where ``whole`` is the time of the work in seconds without the profiler."""
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        work()
        torch.cuda.synchronize()
    spans = [e.time_range for e in recorded.events() if e.device_type == DeviceType.CUDA]
    profiled = max(s.end for s in spans) - min(s.start for s in spans)  # microseconds
    idle_times = gaps((s.start, s.end) for s in spans)
    busy = profiled - sum(idle_times)
    key = f"{name}: GPU idle fraction of a block"
    return {
        key: sum(idle_times) / profiled,
        f"{key}, gaps over {LONG_GAP} us": sum(g for g in idle_times if g > LONG_GAP) / profiled,
        f"{key}, by the clock": 1 - busy / 1e6 / whole,
    }


def gaps(spans: Iterable[tuple[float, float]]) -> list[float]:
    """The lengths of the gaps in a union of intervals."""
    (_, reached), *others = sorted(spans)
    lengths = []
    for start, end in others:
        if start > reached:
            lengths.append(start - reached)
        reached = max(reached, end)
    return lengths


def steps_of(name: str, trainer: Trainer, flops: float, limit: float) -> dict[str, float]:
    """Tokens per second of the training step, and its fraction of the peak."""
    batch, device = trainer.recipe.batch, trainer.device.type
    paths = trainer._draw(BLOCK, trainer.generators)
    pace = batch * D / library_step(trainer, paths, 3, device)
    return {
        f"{name}: training tokens per second": pace,
        f"{name}: fraction of peak": pace * flops / limit,
    }


def blocks_of(name: str, trainer: Trainer, pace: float) -> dict[str, float]:
    """Training in blocks: the fraction of the time outside the steps."""
    blocks, device = trainer.blocks(), trainer.device.type

    def run_blocks() -> None:
        list(itertools.islice(blocks, BLOCKS))

    whole = seconds(run_blocks, 3, device)
    alone = BLOCKS * BLOCK * trainer.recipe.batch * D / pace
    outside = {f"{name}: fraction of a block outside its steps": 1 - alone / whole}
    return outside | (idle(name, run_blocks, whole) if device == "cuda" else {})


def samples_of(name: str, trainer: Trainer, flops: float, limit: float) -> dict[str, float]:
    """One-step samples per second."""
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
        f"{name}: sampling, fraction of peak": pace * D * flops / 3 / limit,
    }


def trainer_of(
    size: float, batch: int, device: str, muon: float, conditioning: float = 0.0
) -> Trainer:
    """A trainer for a network of a given size, on random records."""
    g = torch.Generator().manual_seed(0)
    data = TokenArray(torch.randint(V, (10_000, D), generator=g), V)
    problem = Problem(
        DataPaths(OneHotFlow(V, MINIBATCH_OT), data, ClockUniform(V), conditioning),
        lambda: FlowMapKernel(network(size), V),
        PosteriorRegression(),
    )
    return Trainer(problem, recipe(batch, device, muon), [0], device)


def measure(size: float, batch: int, device: str, limit: float) -> dict[str, float]:
    """All measurements for one size."""
    net = network(size)
    name = f"{sum(p.numel() for p in net.parameters()) / 1e6:.1f}M"
    flops = flops_per_token(net)
    adam = trainer_of(size, batch, device, muon=0.0)
    numbers = steps_of(f"{name}, AdamW", adam, flops, limit)
    numbers |= samples_of(name, adam, flops, limit)
    numbers |= steps_of(f"{name}, Muon", trainer_of(size, batch, device, MUON_RATIO), flops, limit)
    full_name = f"{name}, Muon, observed positions"
    full = trainer_of(size, batch, device, MUON_RATIO, OBSERVED_FRACTION)
    numbers |= steps_of(full_name, full, flops_per_token(net, times=2), limit)
    pace = numbers[f"{full_name}: training tokens per second"]
    return numbers | blocks_of(name, full, pace)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e6, 1e7, 1e8])
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    device, batch, limit = options.device, options.batch, peak(options.device)
    numbers: dict[str, float | int] = {"batch": batch, "V": V, "D": D, "peak TFLOP/s": limit / 1e12}
    for size in options.sizes:
        measured = measure(size, batch, device, limit)
        print("\n".join(f"{key}: {value:.4g}" for key, value in measured.items()), flush=True)
        numbers |= measured
    sizes = " ".join(f"{size:g}" for size in options.sizes)
    command = f"python bench/throughput.py --device {device} --sizes {sizes} --batch {batch}"
    record(f"throughput-{device}", device, command, numbers, options.out)


if __name__ == "__main__":
    main()
