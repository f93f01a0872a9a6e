"""Sixteen yes-or-no answers: the joint distribution over all 65,536 states is enumerated."""

from dataclasses import replace
from typing import ClassVar

import numpy
import torch
from torch import Tensor, nn

from discrete_meanflow.io.alphabet import Alphabet
from discrete_meanflow.metric import frequencies, total_variation
from discrete_meanflow.network import FlatMLP
from discrete_meanflow.training import FlowMapDistillation, Recipe
from dmf_reproduction import read
from dmf_reproduction.engine.experiment import Claim, Json, Scale, format_numbers
from dmf_reproduction.experiments.real_data import RealData, Records, at_steps
from dmf_reproduction.metrics import sequence_index
from dmf_reproduction.settings import FACTORISED, FLOW_MAP, KINDS

BAR = 0.37  # largest one-step TV to the test distribution
BITS = "01"
RECIPE = Recipe(6_000, batch=256, learning_rate=1e-3, weight_decay=0.01, ema_decay=0.9995)


class JointNltcs(RealData):
    name = "joint-nltcs"
    title = "nltcs: joint distribution of 16 binary answers"
    claims_summary = ("one-step TV to the test distribution at most 0.37, from 1,000,000 samples",)
    draws = 1_000_000
    recipes: ClassVar = dict.fromkeys(KINDS, RECIPE)
    distillations = (FlowMapDistillation(300_000, 32, replace(RECIPE, batch=2 * RECIPE.batch)),)

    def read(self) -> Records:
        """The published split. Rows are draws from a distribution, so duplicates stay."""
        parts = [
            read.whole_numbers(self.file(f"debd_binary/nltcs.{part}.data.gz"))
            for part in ("train", "test")
        ]
        return Records(parts[0], parts[1], Alphabet(BITS))

    def network(self, states: int, length: int, scale: Scale) -> nn.Module:
        return FlatMLP(states, length, 256 if scale is Scale.paper else 16, 3)

    def lines(self, tokens: Tensor) -> list[str]:
        return sorted(super().lines(tokens))  # equal rows side by side compress well

    def score(self, samples: list[str]) -> Json:
        """TV of all samples, and of as many samples as there are training rows."""
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
        """TV to the test rows of the training rows and of the product of their marginals."""
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
        """The probability that a distribution assigns to rows of the training set."""
        return law[self._law_of(self.records.train) > 0].sum().item()

    def _rows(self, samples: list[str]) -> Tensor:
        digits = numpy.frombuffer("".join(samples).encode(), dtype=numpy.uint8) - ord("0")
        return torch.from_numpy(digits.reshape(len(samples), -1))

    def _law_of(self, rows: Tensor) -> Tensor:
        return frequencies(sequence_index(rows, len(BITS)), len(BITS) ** rows.shape[1])

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        scores, floor = facts["scores"], facts["train to test"]
        known = facts["test rows that are training rows"]
        tv, factorised = at_steps(scores, "tv_test"), at_steps(scores, "tv_test", FACTORISED)
        as_many, copies = at_steps(scores, "tv_test_as_many"), scores[FLOW_MAP]["1"]["copies"]
        return [
            self.claim(
                "one-step",
                f"one-step TV to the test distribution at most {BAR} (training rows {floor:.3f}, "
                f"product of marginals {facts['product of marginals to test']:.3f}, factorised "
                f"{format_numbers(factorised)})",
                tv[0],
                tv[0] <= BAR,
            ),
            self.claim(
                "steps",
                "one-step TV at most 1.3x that of 64 steps; at 1 2 4 8 16 64 steps",
                format_numbers(tv),
                tv[0] <= 1.3 * tv[-1],
            ),
            self.claim(
                "enough-steps",
                "64-step TV from as many samples as training rows at most 1.3x that of the "
                f"training rows, {floor:.3f}; at 1 2 4 8 16 64 steps {format_numbers(as_many)}",
                f"{as_many[-1] / floor:.2f}x",
                as_many[-1] <= 1.3 * floor,
            ),
            self.claim(
                "copies",
                "fraction of one-step samples that are training rows exceeds that of test rows, "
                f"{known:.3f}, by less than 0.05",
                copies,
                copies < known + 0.05,
            ),
        ]
