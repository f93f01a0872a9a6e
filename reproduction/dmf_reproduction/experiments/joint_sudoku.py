"""Filled sudoku grids: 27 constraints."""

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from discrete_meanflow.io.alphabet import Alphabet
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.metric.two_samples import copies
from discrete_meanflow.network import DiT
from discrete_meanflow.process import SequenceProcess
from discrete_meanflow.sampler import KernelSampler, RefiningSampler, generate
from discrete_meanflow.training import FlowMapDistillation, Recipe
from dmf_reproduction import read
from dmf_reproduction.engine.experiment import Claim, Json, Scale, format_numbers
from dmf_reproduction.experiments.real_data import (
    RealData,
    Records,
    at_steps,
    by_steps,
    read_samples,
)
from dmf_reproduction.settings import FACTORISED, FLOW_MAP

DIGITS = "123456789"
HELD_OUT = 2_000
ONE_STEP, MANY_STEPS = 0.1, 0.6  # smallest valid fraction: 1 step, 16 steps
PUZZLES, CLUES = 1_000, 40
SOLVED_IN = (1, 16)  # numbers of steps
REFINED = 0.6  # smallest valid fraction of grids refined in 8 evaluations
REFINED_IN = 8
REFINED_FILE = f"refined-{REFINED_IN}.txt.gz"
RECIPE = Recipe(10_000, batch=256, learning_rate=6e-4, ema_decay=0.9995, bf16=True, muon_ratio=4.0)


class JointSudoku(RealData):
    name = "joint-sudoku"
    title = "Sudoku: grids that satisfy all 27 constraints"
    claims_summary = (
        "at least 10 % of one-step grids and 60 % of 16-step grids are valid, none is a copy",
        "at least 60 % of grids refined in 8 evaluations are valid",
    )
    # The flow map also trains on puzzles: grids with observed cells at random. Refining generates
    # the rest of such grids, so half of the training grids are puzzles.
    conditioning = 0.5
    recipes: ClassVar = {FLOW_MAP: RECIPE, FACTORISED: replace(RECIPE, iterations=6_000)}
    distillations = (
        FlowMapDistillation(300_000, 16, replace(RECIPE, iterations=8_000, batch=512)),
    )

    def read(self) -> Records:
        grids = read.lines(self.file("sudoku17/solutions_random_isomorph_seed0.txt"))
        alphabet = Alphabet(DIGITS)
        tokens = alphabet.encode(grids, 81)
        return Records(*read.split(tokens, min(HELD_OUT, len(tokens) // 4)), alphabet)

    def network(self, states: int, length: int, scale: Scale) -> nn.Module:
        size = (256, 6, 8) if scale is Scale.paper else (16, 1, 2)
        return DiT(states, length, *size)

    def more_samples(
        self, kind: str, kernel: Kernel, process: SequenceProcess, draws: int, seed: int
    ) -> dict[str, Tensor]:
        """Refined grids, and held-out grids with CLUES cells, completed in one step and in 16."""
        if kind != FLOW_MAP:
            return {}
        g = torch.Generator().manual_seed(seed)
        grids = self.records.held_out[: min(draws, PUZZLES)]
        order = torch.rand(grids.shape, generator=g).argsort(-1)
        device = kernel.device
        tokens, observed = grids.to(device), (order < CLUES).to(device)
        noise = torch.Generator(device).manual_seed(seed)
        start = process.source(tuple(grids.shape), noise)
        solved = {
            f"puzzles-{k}.txt.gz": KernelSampler.steps(kernel, k)
            .sample(start, noise, tokens, observed)
            .cpu()
            for k in SOLVED_IN
        }
        # The order of mask-predict: in sudoku no digit is more frequent, so none is favoured.
        sampler = RefiningSampler(kernel, REFINED_IN, certain=1)
        refined = torch.cat(list(generate(sampler, process, (draws, grids.shape[1]), noise)))
        return {**solved, REFINED_FILE: refined}

    def scores(self, folder: Path) -> Json:
        scores = super().scores(folder)
        scores["puzzles"] = {
            str(k): self.score(read_samples(folder / f"puzzles-{k}.txt.gz"))["valid"]
            for k in SOLVED_IN
        }
        if (folder / REFINED_FILE).exists():  # not in runs before there was a refining sampler
            scores["refined"] = self.score(read_samples(folder / REFINED_FILE))
        return scores

    def score(self, samples: list[str]) -> Json:
        x = self.records.alphabet.encode(samples, 81)
        satisfied = constraints_satisfied(x)
        return {
            "valid": (satisfied == 27).double().mean().item(),
            "constraints": satisfied.double().mean().item() / 27,
            "unique": len(set(samples)) / len(samples),
            "copies": copies(x, self.records.train),
            "shown": samples[:4],
        }

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        scores, puzzles = facts["scores"], facts["scores"]["puzzles"]
        valid = at_steps(scores, "valid")
        copied = max([*at_steps(scores, "copies"), scores.get("refined", {}).get("copies", 0)])
        claims = [
            self.claim(
                "one-step",
                f"at least {ONE_STEP:.0%} of one-step grids are valid; {by_steps(scores, 'valid')}",
                valid[0],
                valid[0] >= ONE_STEP,
            ),
            self.claim(
                "16-steps",
                f"at least {MANY_STEPS:.0%} of 16-step grids are valid",
                valid[4],
                valid[4] >= MANY_STEPS,
            ),
            self.claim(
                "puzzles",
                f"16 steps solve more puzzles of {CLUES} clues than one step; at 1 and 16 steps",
                format_numbers(list(puzzles.values())),
                puzzles["16"] > puzzles["1"],
            ),
            self.claim("copies", "no grid copies a training grid", copied, copied == 0),
        ]
        if "refined" in scores:
            valid = scores["refined"]["valid"]
            text = f"at least {REFINED:.0%} of grids refined in {REFINED_IN} evaluations are valid"
            claims.append(self.claim("refined", text, valid, valid >= REFINED))
        return claims


def constraints_satisfied(x: Tensor) -> Tensor:
    """How many of the 9 rows, 9 columns and 9 boxes contain nine different digits: ``(N,)``."""
    grid = x.reshape(-1, 9, 9)
    boxes = grid.reshape(-1, 3, 3, 3, 3).transpose(2, 3).reshape(-1, 9, 9)
    units = torch.cat([grid, grid.transpose(1, 2), boxes], 1)  # (N, 27, 9)
    return (units.sort(-1).values == torch.arange(9)).all(-1).sum(-1)
