"""First names: spelling, and an end that stays one."""

from typing import ClassVar

from torch import Tensor, nn

from discrete_meanflow.data import Alphabet, read, split
from discrete_meanflow.metric.two_samples import copies, ngram_tv
from discrete_meanflow.network import DiT
from discrete_meanflow.training import FlowMapDistillation, Recipe
from dmf_reproduction.engine.experiment import Claim, Json, Scale, in_words
from dmf_reproduction.experiments.real_data import RealData, Records, at_steps

HELD_OUT = 2_000  # each of the two sets that are compared with each other
WELL_FORMED, RATIO, COPIES = 0.95, 1.7, 0.2  # bars


class JointNames(RealData):
    name = "joint-names"
    title = "Names: letter pairs, well-formed ends, copies"
    claims_summary = (
        "one-step names at least 95 % well-formed, fewer than 20 % copies of training names",
        "letter-pair TV to held-out names at most 1.7x that between two held-out sets",
    )
    recipes: ClassVar = {
        "soft": Recipe(15_000, batch=512, learning_rate=1e-3, ema_decay=0.9995, bf16=True),
        "factorised": Recipe(15_000, batch=512, learning_rate=1e-3, ema_decay=0.9995, bf16=True),
    }
    couplings = (
        FlowMapDistillation(
            300_000, 32, Recipe(15_000, batch=1024, learning_rate=1e-3, ema_decay=0.9995, bf16=True)
        ),
    )

    def cut(self) -> Records:
        names = read.lines(self.file("names/names.txt"))
        alphabet = Alphabet.of(names)
        held_out = min(2 * HELD_OUT, len(names) // 2)
        return Records(*split(alphabet.encode(names), held_out), alphabet)

    def network(self, states: int, length: int, scale: Scale) -> nn.Module:
        size = (128, 4) if scale is Scale.paper else (16, 1)
        return DiT(states, length, *size)

    def score(self, samples: list[str]) -> Json:
        pad = self.records.alphabet.pad or ""
        formed = [s for s in samples if len(s) >= 2 and pad not in s]
        first = self.records.held_out[: len(self.records.held_out) // 2]
        # As many as are held out, lest the sizes of the two samples make the difference.
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
            "held out": self.score(self._strings(second)),
        }

    def _strings(self, tokens: Tensor) -> list[str]:
        return self.records.alphabet.decode(tokens)

    def _pair_tv(self, x: Tensor, y: Tensor) -> float:
        """TV between the laws of a letter and the next, or the end, wherever they stand."""
        return ngram_tv(x, y, self.records.vocabulary, pad=self.records.alphabet.pad_number)

    def verdicts(self, facts: Json) -> list[Claim]:
        scores = facts["scores"]

        def steps(key: str) -> str:
            return f"at 1 2 4 8 16 64 steps {in_words(at_steps(scores, 'soft', key))}; " + (
                f"factorised {in_words(at_steps(scores, 'factorised', key))}"
            )

        one = scores["soft"]["1"]
        ratio = one["pair_tv"] / facts["floor"]
        return [
            self._claim(
                "well-formed",
                f"at least {WELL_FORMED:.0%} of one-step names well-formed; {steps('well_formed')}",
                one["well_formed"],
                one["well_formed"] >= WELL_FORMED,
            ),
            self._claim(
                "pairs",
                f"letter-pair TV at most {RATIO}x that of two held-out sets, {facts['floor']:.4f}; "
                f"{steps('pair_tv')}",
                f"{ratio:.2f}x",
                ratio <= RATIO,
            ),
            self._claim(
                "copies",
                f"fewer than {COPIES:.0%} are training names; {steps('copies')}",
                one["copies"],
                one["copies"] < COPIES,
            ),
        ]
