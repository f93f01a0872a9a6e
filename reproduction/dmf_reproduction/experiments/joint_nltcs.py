"""Sixteen yes-or-no answers: the joint law is counted out over all 65,536 states."""

from dataclasses import replace
from typing import ClassVar

import numpy
import torch
from torch import Tensor, nn

from discrete_meanflow.data import Alphabet, read
from discrete_meanflow.metric import frequencies, total_variation
from discrete_meanflow.metric.sequences import numbered
from discrete_meanflow.network import FlatMLP
from discrete_meanflow.training import FlowMapDistillation, Recipe
from dmf_reproduction.engine.experiment import Claim, Json, Scale, in_words
from dmf_reproduction.experiments.real_data import KINDS, RealData, Records, at_steps

BAR = 0.37  # TV of one step to the test law
BITS = "01"
RECIPE = Recipe(6_000, batch=256, learning_rate=1e-3, weight_decay=0.01, ema_decay=0.9995)


class JointNltcs(RealData):
    name = "joint-nltcs"
    title = "nltcs: the joint law of 16 binary answers, counted out"
    claims_summary = ("one-step TV to the test law at most 0.37, from 1,000,000 samples",)
    draws = 1_000_000
    recipes: ClassVar = dict.fromkeys(KINDS, RECIPE)
    couplings = (FlowMapDistillation(300_000, 32, replace(RECIPE, batch=2 * RECIPE.batch)),)

    def cut(self) -> Records:
        """The published split; the rows are draws from a law, so repeats stay."""
        parts = [
            read.whole_numbers(self.file(f"debd_binary/nltcs.{part}.data.gz"))
            for part in ("train", "test")
        ]
        return Records(parts[0], parts[1], Alphabet(BITS))

    def network(self, states: int, length: int, scale: Scale) -> nn.Module:
        return FlatMLP(states, length, 256 if scale is Scale.paper else 16, 3)

    def shown(self, tokens: Tensor) -> list[str]:
        return sorted(super().shown(tokens))  # equal rows side by side: a million in little space

    def score(self, samples: list[str]) -> Json:
        """TV of all samples; and of as many as there are training rows, to compare with these."""
        rows = self._rows(samples)
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
        law, as_many = (self._law_of(z) for z in (rows, rows[order[: len(self.records.train)]]))
        test, train = (self._law_of(z) for z in (self.records.held_out, self.records.train))
        return {
            "tv_test": total_variation(law, test).item(),
            "tv_train": total_variation(law, train).item(),
            "tv_test_as_many": total_variation(as_many, test).item(),
            "copies": self._known(law),
        }

    def facts(self, scale: Scale) -> Json:
        """How far from the test law the training rows are, and the product of their marginals."""
        train, test = self._law_of(self.records.train), self._law_of(self.records.held_out)
        marginals = self.records.train.double().mean(0)
        states = torch.tensor([[int(b) for b in f"{i:016b}"] for i in range(2**16)]).double()
        product = (states * marginals + (1 - states) * (1 - marginals)).prod(-1)
        return {
            **self.records.describe(),
            "train to test": total_variation(train, test).item(),
            "product of marginals to test": total_variation(product, test).item(),
            "test rows that are training rows": self._known(test),
        }

    def _known(self, law: Tensor) -> float:
        """How much of a law is on rows of the training set."""
        return law[self._law_of(self.records.train) > 0].sum().item()

    def _rows(self, samples: list[str]) -> Tensor:
        digits = numpy.frombuffer("".join(samples).encode(), dtype=numpy.uint8) - ord("0")
        return torch.from_numpy(digits.reshape(len(samples), -1))

    def _law_of(self, rows: Tensor) -> Tensor:
        return frequencies(numbered(rows, len(BITS)), len(BITS) ** rows.shape[1])

    def verdicts(self, facts: Json) -> list[Claim]:
        scores = facts["scores"]
        soft, hard = (at_steps(scores, kind, "tv_test") for kind in ("soft", "factorised"))
        as_many = at_steps(scores, "soft", "tv_test_as_many")
        return [
            self._claim(
                "one-step",
                f"one-step TV to the test law at most {BAR} (training rows to test "
                f"{facts['train to test']:.3f}, product of marginals "
                f"{facts['product of marginals to test']:.3f}, factorised {in_words(hard)})",
                soft[0],
                soft[0] <= BAR,
            ),
            self._claim(
                "steps",
                "one step at most 1.3x the 64-step sampler of the same kernel; at 1 2 4 8 16 64",
                in_words(soft),
                soft[0] <= 1.3 * soft[-1],
            ),
            self._claim(
                "enough-steps",
                "the 64-step sampler at most 1.3x what the training rows themselves are from test, "
                f"{facts['train to test']:.3f}, as many of each; at 1 2 4 8 16 64 "
                f"{in_words(as_many)}",
                f"{as_many[-1] / facts['train to test']:.2f}x",
                as_many[-1] <= 1.3 * facts["train to test"],
            ),
            self._claim(
                "copies",
                "no more one-step samples are training rows than test rows are, "
                f"{facts['test rows that are training rows']:.3f}, by 0.05 or more",
                scores["soft"]["1"]["copies"],
                scores["soft"]["1"]["copies"] < facts["test rows that are training rows"] + 0.05,
            ),
        ]
