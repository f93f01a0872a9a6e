"""Variants of distribution matching, trained from the same two stages.

    python bench/distribution_matching.py FILE --minutes 10 [--device cuda] --samples DIR
    python bench/distribution_matching.py FILE --samples DIR --score

The file is read, split and planned as by ``dmf train``. Teacher, teacher pairs and student are
trained once, for their shares of the minutes. Then each variant trains the third stage from there,
all for the same number of steps, and is sampled in 1 to 64 steps. ``matching_arms.py`` lists them;
``more pairs`` is the control, the second stage for as long.

The first call needs neither scikit-learn nor RDKit. It writes samples and ``stages.pt``, the first
two stages: a further call with the same folder trains only the variants that it names. The second
call scores the samples and writes the record.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from discrete_meanflow import KernelSampler, ODESampler, OneHotFlow, RefiningSampler
from discrete_meanflow.data import TokenArray
from discrete_meanflow.kernel import FlowMapKernel, Kernel
from discrete_meanflow.model.options import FitOptions, ReadOptions
from discrete_meanflow.model.pace import FEWEST_STEPS, WITH_MATCHING
from discrete_meanflow.model.pacing import plan_minutes
from discrete_meanflow.model.plan import Plan
from discrete_meanflow.model.prepare import split_dataset
from discrete_meanflow.model.read import read_dataset
from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.model.sizing import choose_plan, default_size
from discrete_meanflow.model.tensor_files import write_tokens
from discrete_meanflow.model.training_record import composition_residual
from discrete_meanflow.run.environment import device_name, versions
from discrete_meanflow.run.json_files import read_json, write_json
from discrete_meanflow.sampler import Sampler, generate
from discrete_meanflow.training import Problem, Recipe, Trainer
from discrete_meanflow.types import State
from matching_arms import ARMS, DEFAULT_ARMS, Stages, generator, prepare
from matching_scores import write_record
from measure import RESULTS

KERNEL_STEPS, FEW_STEPS = (1, 2, 4, 16, 64), (2, 4, 8)
TEACHER_STEPS = 64  # of its ODE
SHARES = (WITH_MATCHING.teacher, WITH_MATCHING.pairs, WITH_MATCHING.student, WITH_MATCHING.matching)
STAGES, RUN = "stages.pt", "run.json"


def read(options: argparse.Namespace) -> tuple[Config, State, State]:
    """The data as ``dmf train`` reads them: config with an unfinished plan, and both splits."""
    kind, dataset = read_dataset(options.file, ReadOptions())
    train, held_out, _ = split_dataset(dataset, None, options.seed)
    size = options.size or default_size(dataset.codec, options.device, train.numel())
    plan = choose_plan(dataset.codec, options.device, size, FitOptions(seed=options.seed))
    return Config(kind, dataset.codec, plan), train, held_out


def paced(config: Config, train: State, options: argparse.Namespace) -> Plan:
    """The plan of ``dmf train``, its steps and pairs scaled to the shares of the minutes."""
    data = TokenArray(train, config.codec.vocabulary)
    plan, _ = plan_minutes(config.plan, config.codec, data, options.device, options.minutes)
    ratios = [share / usual for share, usual in zip(options.shares, SHARES, strict=True)]

    def scaled(steps: int, ratio: float) -> int:
        steps = round(steps * ratio)
        whole = steps - steps % plan.block  # captured steps are bound to the length of a block
        return max(FEWEST_STEPS, whole or steps)

    return replace(
        plan,
        teacher_steps=scaled(plan.teacher_steps, ratios[0]),
        teacher_pairs=max(1, round(plan.teacher_pairs * ratios[1])),
        student_steps=scaled(plan.student_steps, ratios[2]),
        matching_steps=scaled(plan.matching_steps, ratios[3]),
    )


def trained(
    problem: Problem, recipe: Recipe, start: Kernel | None, device: str, seed: int, name: str
) -> tuple[Kernel, dict[str, float]]:
    """The trained kernel; steps, seconds and milliseconds per step after compilation."""
    trainer = Trainer(problem, recipe, [seed], device, None if start is None else [start])
    blocks = list(trainer.blocks())
    first, last = blocks[0], blocks[-1]
    later = max(1, last.iteration - first.iteration)
    numbers = {
        "steps": last.iteration,
        "seconds": last.seconds,
        "ms per step": 1000 * (last.seconds - first.seconds) / later,
        "loss": last.loss[0],
    }
    print(name, {key: round(value, 4) for key, value in numbers.items()}, flush=True)
    return trainer.kernels()[0], numbers


def first_stages(config: Config, train: State, folder: Path, device: str) -> Stages:
    """Teacher, pairs and student, from the folder where they are trained already."""
    plan, path = config.plan, folder / STAGES
    first = plan.problem(config.codec, TokenArray(train, config.codec.vocabulary))
    saved = torch.load(path, device, weights_only=True) if path.exists() else {}
    kernels: list[Kernel] = []
    second, recipe = first, plan.stages[0].recipe
    for name in ("teacher", "student"):
        if name == "student":
            started = time.monotonic()
            second = plan.distillation.problem(first, kernels[0], plan.seed)
            print(f"{plan.teacher_pairs} pairs: {time.monotonic() - started:.1f} s", flush=True)
            recipe = plan.distillation.recipe
        if name in saved:
            kernel = first.build(plan.seed).to(device)
            kernel.load_state_dict(saved[name])
        else:
            start = kernels[-1] if kernels else None
            kernel, _ = trained(second, recipe, start, device, plan.seed, name)
        kernels.append(kernel)
    if not saved:
        states = [kernel.state_dict() for kernel in kernels]
        torch.save({"plan": plan.describe(), "teacher": states[0], "student": states[1]}, path)
    return Stages(first, second, *kernels)


def samplers(kernel: Kernel, name: str) -> Iterator[tuple[str, Sampler]]:
    """The samplers of a kernel by name: a teacher knows short steps only."""
    if name == "teacher":
        assert isinstance(kernel, FlowMapKernel)
        yield f"ode {TEACHER_STEPS}", ODESampler(kernel, TEACHER_STEPS)
        return
    yield from ((f"kernel {k}", KernelSampler.steps(kernel, k)) for k in KERNEL_STEPS)
    yield from ((f"restart {k}", KernelSampler.restarts(kernel, k)) for k in FEW_STEPS)
    yield from ((f"refining {k}", RefiningSampler(kernel, k)) for k in FEW_STEPS)


def write_samples(kernel: Kernel, name: str, n: int, config: Config, folder: Path) -> None:
    """Write the samples of a kernel with each of its samplers."""
    codec, bf16 = config.codec, config.plan.samples_in_bf16(kernel.device)
    process, started, tokens = OneHotFlow(codec.vocabulary), time.monotonic(), {}
    for sampler_name, sampler in samplers(kernel, name):
        g = torch.Generator(kernel.device).manual_seed(config.plan.seed)
        chunks = list(generate(sampler, process, (n, codec.length), g, bf16=bf16))
        tokens[sampler_name] = torch.cat(chunks)
    write_tokens(folder / f"{name}.safetensors", tokens, codec.vocabulary)
    print(f"{name}: sampled in {time.monotonic() - started:.1f} s", flush=True)


def run(options: argparse.Namespace) -> None:
    """Train what is missing and the named arms, and write their samples."""
    folder, device = options.samples, options.device
    folder.mkdir(parents=True, exist_ok=True)
    config, train, held_out = read(options)
    path = folder / STAGES
    if path.exists():
        plan = Plan.from_json(torch.load(path, weights_only=True)["plan"])
    else:
        plan = paced(config, train, options)
    config = replace(config, plan=plan)
    stages = first_stages(config, train, folder, device)
    facts = read_json(folder / RUN) if (folder / RUN).exists() else about(options, config)
    n = facts["samples"] = min(options.n, len(held_out) // 2)
    for name, kernel in (("teacher", stages.teacher), ("student", stages.student)):
        write_samples(kernel, name, n, config, folder)
    residual = composition_residual(stages.student, config)
    facts["kernels"] |= {"teacher": {}, "student": {"composition residual": residual}}
    write_json(folder / RUN, facts)
    for name in options.arms:
        problem, recipe, start = prepare(ARMS[name], plan, stages)
        kernel, numbers = trained(problem, recipe, start, device, plan.seed, name)
        kernel = generator(kernel, stages)
        residual = composition_residual(kernel, config)
        facts["kernels"][name] = {**numbers, "composition residual": residual}
        write_samples(kernel, name, n, config, folder)
        write_json(folder / RUN, facts)
        del problem, kernel
        if device == "cuda":
            torch.cuda.empty_cache()


def about(options: argparse.Namespace, config: Config) -> dict[str, Any]:
    """How and where the samples were made, for the record."""
    plan = config.plan
    command = (
        f"python bench/distribution_matching.py {options.file.name} --minutes {options.minutes:g} "
        f"--device {options.device} --seed {options.seed}"
    )
    size = "" if options.size is None else f" --size {options.size:g}"
    return {
        "command": command + size,
        "device": device_name(options.device),
        "versions": versions(),
        "seed": options.seed,
        "minutes": options.minutes,
        "shares": list(options.shares),
        "parameters": plan.parameter_count(config.codec),
        "plan": plan.describe(),
        "kernels": {},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--samples", type=Path, required=True, metavar="DIR")
    parser.add_argument("--score", action="store_true", help="score the samples of DIR")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--shares", type=float, nargs=4, default=SHARES)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--arms", nargs="*", default=DEFAULT_ARMS, choices=list(ARMS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=float)
    parser.add_argument("-n", type=int, default=4000, help="samples, at most half the held-out")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.score:
        facts = read_json(options.samples / RUN)
        options.seed = facts["seed"]
        write_record(options.file, options.samples, facts, read(options), options.out)
    else:
        run(options)


if __name__ == "__main__":
    main()
