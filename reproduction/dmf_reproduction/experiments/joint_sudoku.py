"""Filled sudoku grids: 27 constraints that all must hold."""

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from discrete_meanflow.data import Alphabet, read, split
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.metric.two_samples import copies
from discrete_meanflow.network import DiT
from discrete_meanflow.process import SequenceProcess
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.training import FlowMapDistillation, Recipe
from dmf_reproduction.engine.experiment import Claim, Json, Scale, in_words
from dmf_reproduction.experiments.real_data import (
    RealData,
    Records,
    at_steps,
    samples_in,
)

DIGITS = "123456789"
HELD_OUT = 2_000
ONE_STEP, MANY_STEPS = 0.1, 0.6  # bars: one step, 16 steps
PUZZLES, CLUES = 1_000, 40
SOLVED_IN = (1, 16)  # steps
RECIPE = Recipe(10_000, batch=256, learning_rate=6e-4, ema_decay=0.9995, bf16=True, muon_ratio=4.0)


class JointSudoku(RealData):
    name = "joint-sudoku"
    title = "Sudoku: grids that keep all 27 constraints"
    claims_summary = (
        "at least 10 % of one-step grids valid and 60 % of 16-step ones, none a copy",
    )
    conditioning = 0.25  # the soft kernel meets puzzles, too: grids in which some cells are known
    recipes: ClassVar = {"soft": RECIPE, "factorised": replace(RECIPE, iterations=6_000)}
    couplings = (FlowMapDistillation(300_000, 16, replace(RECIPE, iterations=8_000, batch=512)),)

    def cut(self) -> Records:
        grids = read.lines(self.file("sudoku17/solutions_random_isomorph_seed0.txt"))
        alphabet = Alphabet(DIGITS)
        tokens = alphabet.encode(grids, 81)
        return Records(*split(tokens, min(HELD_OUT, len(tokens) // 4)), alphabet)

    def network(self, states: int, length: int, scale: Scale) -> nn.Module:
        size = (256, 6, 8) if scale is Scale.paper else (16, 1, 2)
        return DiT(states, length, *size)

    def more_samples(
        self, kind: str, kernel: Kernel, process: SequenceProcess, draws: int, seed: int
    ) -> dict[str, Tensor]:
        """Held-out grids of which CLUES cells are given, filled in one step and in 16."""
        if kind != "soft":
            return {}
        g = torch.Generator().manual_seed(seed)
        grids = self.records.held_out[: min(draws, PUZZLES)]
        order = torch.rand(grids.shape, generator=g).argsort(-1)
        here = kernel.home.device
        given, held = grids.to(here), (order < CLUES).to(here)
        noise = torch.Generator(here).manual_seed(seed)
        start = process.hold(process.source(tuple(grids.shape), noise), given, held)
        return {
            f"puzzles-{k}.txt.gz": KernelSampler.steps(kernel, k)
            .sample(start, noise, clamped=held)
            .cpu()
            for k in SOLVED_IN
        }

    def scores(self, folder: Path) -> Json:
        return {
            **super().scores(folder),
            "puzzles": {
                str(k): self.score(samples_in(folder / f"puzzles-{k}.txt.gz"))["valid"]
                for k in SOLVED_IN
            },
        }

    def score(self, samples: list[str]) -> Json:
        x = self.records.alphabet.encode(samples, 81)
        kept = constraints_kept(x)
        return {
            "valid": (kept == 27).double().mean().item(),
            "constraints": kept.double().mean().item() / 27,
            "unique": len(set(samples)) / len(samples),
            "copies": copies(x, self.records.train),
            "shown": samples[:4],
        }

    def verdicts(self, facts: Json) -> list[Claim]:
        soft, hard = (at_steps(facts["scores"], k, "valid") for k in ("soft", "factorised"))
        copied = at_steps(facts["scores"], "soft", "copies")
        text = f"at 1 2 4 8 16 64 steps {in_words(soft)}; factorised {in_words(hard)}"
        return [
            self._claim(
                "one-step",
                f"at least {ONE_STEP:.0%} of one-step grids valid; {text}",
                soft[0],
                soft[0] >= ONE_STEP,
            ),
            self._claim(
                "16-steps",
                f"at least {MANY_STEPS:.0%} of 16-step grids valid",
                soft[4],
                soft[4] >= MANY_STEPS,
            ),
            self._claim(
                "puzzles",
                f"more puzzles of {CLUES} clues solved in 16 steps than in one; in one and in 16",
                in_words(list(facts["scores"]["puzzles"].values())),
                facts["scores"]["puzzles"]["16"] > facts["scores"]["puzzles"]["1"],
            ),
            self._claim(
                "copies", "no grid is one of the training set", max(copied), not any(copied)
            ),
        ]


def constraints_kept(x: Tensor) -> Tensor:
    """How many of the 9 rows, 9 columns and 9 boxes hold nine different digits: ``(N,)``."""
    grid = x.reshape(-1, 9, 9)
    boxes = grid.reshape(-1, 3, 3, 3, 3).transpose(2, 3).reshape(-1, 9, 9)
    units = torch.cat([grid, grid.transpose(1, 2), boxes], 1)  # (N, 27, 9)
    return (units.sort(-1).values == torch.arange(9)).all(-1).sum(-1)
