"""Multi-step generation: does composing learned kernels help or hurt?"""

from dmf_reproduction.engine.experiment import STEPS, Cell, Claim, Experiment, Json, Scale, mean
from dmf_reproduction.experiments.sequence_parts import (
    composed_exactly,
    configurations,
    sequence_cell,
    sequence_facts,
)

SAME = 1.05  # a change of TV by less than this factor is none


class MultiStep(Experiment):
    name = "multi-step"
    title = "1, 2, 4 and 8 steps for kernel residual and posterior regression"
    where = "appendix, multi-step generation and step-count comparison"
    claims_summary = (
        "TV grows from 1 to 8 steps for KR",
        "it does not for PR",
        "on coupled data the exact posterior, iterated alike, loses as much; pairs gain",
    )
    reuses_cells_of = ("objective-comparison",)

    def cells(self, scale: Scale) -> list[Cell]:
        names = configurations(scale)
        return [sequence_cell(name, o, scale) for o in ("KR", "PR") for name in names]

    def facts(self, scale: Scale) -> Json:
        facts = sequence_facts(configurations(scale), scale)
        for name in facts:
            facts[name]["exact"] = composed_exactly(name, scale)
        return facts

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        steps = [
            self._claim(name, o, fact, cells[f"{name}, {o}"])
            for o in ("KR", "PR")
            for name, fact in facts.items()
        ]
        coupled = [name for name in facts if name.startswith("bigram")]
        causes = [self._cause(name, facts[name], cells[f"{name}, PR"]) for name in coupled]
        return (
            steps
            + causes
            + [
                self._pairs(name, o, facts[name], cells[f"{name}, {o}"])
                for o in ("KR", "PR")
                for name in coupled
            ]
        )

    def _cause(self, name: str, fact: Json, PR: Json) -> Claim:
        exact = fact["exact"]["tv_many"]
        ratios = [mean(PR, "tv_many", k) / v for k, v in zip(STEPS, exact, strict=True)][1:]
        return Claim(
            f"cause/{name}",
            f"{name}: at 2, 4 and 8 steps the TV of PR is that of the exact p(x1 | x_r), iterated "
            f"alike, within 30 % ({' '.join(f'{v:.2f}' for v in ratios)}x); the latter at 1/2/4/8",
            self.where,
            None,
            " ".join(f"{v:.4f}" for v in exact),
            all(1 / 1.3 <= v <= 1.3 for v in ratios),
        )

    def _pairs(self, name: str, objective: str, fact: Json, cell: Json) -> Claim:
        found = [mean(cell, "pair_tv", k) for k in STEPS]
        exact = " ".join(f"{v:.3f}" for v in fact["exact"]["pair_tv"])
        return Claim(
            f"pairs/{objective}/{name}",
            f"{name}, {objective}: TV of adjacent pairs falls by half or more from 1 to 8 steps "
            f"(product of marginals {fact['product_pair_tv']:.3f}; exact p(x1 | x_r) {exact})",
            self.where,
            None,
            " ".join(f"{v:.3f}" for v in found),
            found[-1] <= 0.5 * found[0],
        )

    def _claim(self, name: str, objective: str, fact: Json, cell: Json) -> Claim:
        tv = [mean(cell, "tv_many", steps) for steps in STEPS]
        few = [mean(cell, "tv", steps) for steps in STEPS]
        worse = tv[-1] > SAME * tv[0]
        word = "grows" if objective == "KR" else "does not grow"
        return Claim(
            f"steps/{objective}/{name}",
            f"{name}, {objective}: TV {word} from 1 to 8 steps by more than 5 %; at 1/2/4/8 steps "
            f"from {fact['many_draws']:,} samples (from {fact['draws']:,}: "
            f"{' '.join(f'{v:.4f}' for v in few)})",
            self.where,
            word,
            " ".join(f"{v:.4f}" for v in tv),
            worse if objective == "KR" else not worse,
        )
