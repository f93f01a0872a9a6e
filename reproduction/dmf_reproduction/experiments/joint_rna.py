"""An aligned RNA family: correlations between distant positions."""

from typing import ClassVar

from torch import nn

from discrete_meanflow.io.alphabet import Alphabet
from discrete_meanflow.metric.pair_covariance import pair_covariance_correlation
from discrete_meanflow.metric.two_samples import copies
from discrete_meanflow.network import DiT
from discrete_meanflow.training import FlowMapDistillation, Recipe
from dmf_reproduction import read
from dmf_reproduction.engine.experiment import Claim, Json, Scale
from dmf_reproduction.experiments.real_data import RealData, Records, by_steps
from dmf_reproduction.settings import FACTORISED, FLOW_MAP

SYMBOLS = "-ACGU"
HELD_OUT = 2_000
BAR = 0.85


class JointRna(RealData):
    name = "joint-rna"
    title = "RF00059, a riboswitch family: covariance of pairs of positions"
    claims_summary = (
        "pair covariances of one-step samples correlate with held-out ones at 0.85 or more",
    )
    recipes: ClassVar = {
        FLOW_MAP: Recipe(15_000, batch=256, learning_rate=6e-4, ema_decay=0.9995, bf16=True),
        FACTORISED: Recipe(10_000, batch=256, learning_rate=6e-4, ema_decay=0.9995, bf16=True),
    }
    distillations = (
        FlowMapDistillation(
            200_000,
            32,
            Recipe(10_000, batch=512, learning_rate=6e-4, ema_decay=0.9995, bf16=True),
            full_interval_fraction=1,
        ),
    )

    def read(self) -> Records:
        """Sequences with an ambiguous nucleotide are left out."""
        sequences = read.fasta(self.file("protein_rna_msa/RF00059cm.fasta"))
        alphabet = Alphabet(SYMBOLS)
        tokens = alphabet.encode([s for s in sequences if set(s) <= set(SYMBOLS)])
        return Records(*read.split(tokens, min(HELD_OUT, len(tokens) // 4)), alphabet)

    def network(self, states: int, length: int, scale: Scale) -> nn.Module:
        size = (192, 6, 6) if scale is Scale.paper else (16, 1, 2)
        return DiT(states, length, *size)

    def score(self, samples: list[str]) -> Json:
        x, V = self.records.alphabet.encode(samples), self.records.vocabulary
        return {
            "correlation": pair_covariance_correlation(x, self.records.held_out, V),
            "correlation_train": pair_covariance_correlation(x, self.records.train, V),
            "unique": len(set(samples)) / len(samples),
            "copies": copies(x, self.records.train),
        }

    def facts(self, scale: Scale) -> Json:
        train, held_out, V = self.records.train, self.records.held_out, self.records.vocabulary
        floor = pair_covariance_correlation(train, held_out, V)
        return {**super().facts(scale), "train to held out": floor}

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        one = facts["scores"][FLOW_MAP]["1"]["correlation"]
        return [
            self.claim(
                "one-step",
                f"pair-covariance correlation with held-out sequences at least {BAR} in one step "
                f"(training sequences reach {facts['train to held out']:.3f}); "
                f"{by_steps(facts['scores'], 'correlation')}",
                one,
                one >= BAR,
            )
        ]
