"""First names: spelling and well-formed ends."""

from typing import ClassVar

from torch import Tensor, nn

from discrete_meanflow.io.alphabet import Alphabet
from discrete_meanflow.metric.two_samples import copies, ngram_tv
from discrete_meanflow.network import DiT
from discrete_meanflow.training import FlowMapDistillation, Recipe
from dmf_reproduction import read
from dmf_reproduction.engine.experiment import Claim, Json, Scale
from dmf_reproduction.experiments.real_data import RealData, Records, by_steps
from dmf_reproduction.settings import FACTORISED, FLOW_MAP

HELD_OUT = 2_000  # size of each of the two held-out sets
WELL_FORMED, RATIO, COPIES = 0.95, 1.7, 0.2  # bars


class JointNames(RealData):
    name = "joint-names"
    title = "Names: letter pairs, well-formedness, copies"
    claims_summary = (
        "at least 95 % of one-step names are well-formed, fewer than 20 % copy training names",
        "letter-pair TV to held-out names at most 1.7x that between two held-out sets",
    )
    recipes: ClassVar = {
        FLOW_MAP: Recipe(15_000, batch=512, learning_rate=1e-3, ema_decay=0.9995, bf16=True),
        FACTORISED: Recipe(15_000, batch=512, learning_rate=1e-3, ema_decay=0.9995, bf16=True),
    }
    distillations = (
        FlowMapDistillation(
            300_000, 32, Recipe(15_000, batch=1024, learning_rate=1e-3, ema_decay=0.9995, bf16=True)
        ),
    )

    def read(self) -> Records:
        names = read.lines(self.file("names/names.txt"))
        alphabet = Alphabet.of(names)
        held_out = min(2 * HELD_OUT, len(names) // 2)
        return Records(*read.split(alphabet.encode(names), held_out), alphabet)

    def network(self, states: int, length: int, scale: Scale) -> nn.Module:
        size = (128, 4) if scale is Scale.paper else (16, 1)
        return DiT(states, length, *size)

    def score(self, samples: list[str]) -> Json:
        pad = self.records.alphabet.pad or ""
        formed = [s for s in samples if len(s) >= 2 and pad not in s]
        first = self.records.held_out[: len(self.records.held_out) // 2]
        # As many samples as held-out names: TV depends on the sample size.
        tokens = self.records.alphabet.encode(samples, self.records.length)
        return {
            "well_formed": len(formed) / len(samples),
            "pair_tv": self._pair_tv(tokens[: len(first)], first),
            "unique": len(set(samples)) / len(samples),
            "copies": copies(tokens, self.records.train),
            "shown": samples[:40],
        }

    def facts(self, scale: Scale) -> Json:
        first, second = self.records.held_out.chunk(2)
        return {
            **super().facts(scale),
            "floor": self._pair_tv(second, first),
            "held out": self.score(self.lines(second)),
        }

    def _pair_tv(self, x: Tensor, y: Tensor) -> float:
        """TV between the distributions of a letter and its successor or the end of the name."""
        return ngram_tv(x, y, self.records.vocabulary, pad=self.records.alphabet.pad_token)

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        scores = facts["scores"]
        one = scores[FLOW_MAP]["1"]
        ratio = one["pair_tv"] / facts["floor"]
        return [
            self.claim(
                "well-formed",
                f"at least {WELL_FORMED:.0%} of one-step names are well-formed; "
                f"{by_steps(scores, 'well_formed')}",
                one["well_formed"],
                one["well_formed"] >= WELL_FORMED,
            ),
            self.claim(
                "pairs",
                f"letter-pair TV in one step at most {RATIO}x that between two held-out sets, "
                f"{facts['floor']:.4f}; {by_steps(scores, 'pair_tv')}",
                f"{ratio:.2f}x",
                ratio <= RATIO,
            ),
            self.claim(
                "copies",
                f"fewer than {COPIES:.0%} of one-step names copy a training name; "
                f"{by_steps(scores, 'copies')}",
                one["copies"],
                one["copies"] < COPIES,
            ),
        ]
