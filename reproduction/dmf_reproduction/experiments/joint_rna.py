"""An RNA family, aligned: couplings between distant positions."""

from typing import ClassVar

from torch import nn

from discrete_meanflow.data import Alphabet, read, split
from discrete_meanflow.metric.pair_covariance import pair_covariance_correlation
from discrete_meanflow.metric.two_samples import copies
from discrete_meanflow.network import DiT
from discrete_meanflow.training import FlowMapDistillation, Recipe
from dmf_reproduction.engine.experiment import Claim, Json, Scale, in_words
from dmf_reproduction.experiments.real_data import RealData, Records, at_steps

SYMBOLS = "-ACGU"
HELD_OUT = 2_000
BAR = 0.85


class JointRna(RealData):
    name = "joint-rna"
    title = "RF00059, a riboswitch family: two-site correlations"
    claims_summary = ("correlation of connected two-site frequencies at least 0.85 in one step",)
    recipes: ClassVar = {
        "soft": Recipe(15_000, batch=256, learning_rate=6e-4, ema_decay=0.9995, bf16=True),
        "factorised": Recipe(10_000, batch=256, learning_rate=6e-4, ema_decay=0.9995, bf16=True),
    }
    couplings = (
        FlowMapDistillation(
            200_000,
            32,
            Recipe(10_000, batch=512, learning_rate=6e-4, ema_decay=0.9995, bf16=True),
            whole=1,
        ),
    )

    def cut(self) -> Records:
        """Sequences with a letter for "not sure which" are left out."""
        found = read.fasta(self.file("protein_rna_msa/RF00059cm.fasta"))
        alphabet = Alphabet(SYMBOLS)
        tokens = alphabet.encode([s for s in found if set(s) <= set(SYMBOLS)])
        return Records(*split(tokens, min(HELD_OUT, len(tokens) // 4)), alphabet)

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
        cut, V = self.records, self.records.vocabulary
        floor = pair_covariance_correlation(cut.train, cut.held_out, V)
        return {**super().facts(scale), "train to held out": floor}

    def verdicts(self, facts: Json) -> list[Claim]:
        soft, hard = (at_steps(facts["scores"], k, "correlation") for k in ("soft", "factorised"))
        return [
            self._claim(
                "one-step",
                f"one step at least {BAR} against held-out sequences (training ones reach "
                f"{facts['train to held out']:.3f}); at 1 2 4 8 16 64 steps {in_words(soft)}; "
                f"factorised {in_words(hard)}",
                soft[0],
                soft[0] >= BAR,
            ),
        ]
