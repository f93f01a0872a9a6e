"""Hybrid loss KR + lambda CE: does combining the two objectives help?"""

from dmf_reproduction.engine.experiment import (
    Cell,
    Claim,
    Experiment,
    Json,
    Scale,
    format_numbers,
    mean,
)
from dmf_reproduction.experiments.sequence_parts import (
    configurations,
    sequence_cell,
    sequence_facts,
)
from dmf_reproduction.settings import LAMBDAS


class HybridSweep(Experiment):
    name = "hybrid-sweep"
    title = "Hybrid loss KR + lambda CE, lambda in {0, 0.1, 1, 10, inf}, one seed"
    where = "appendix, hybrid loss sweep"
    claims_summary = (
        "the lowest TV is at lambda = inf in all configurations",
        "for intermediate lambda, token accuracy rises and TV gets worse (paper)",
    )
    reuses_cells_of = ("objective-comparison",)
    one_seed = True

    def cells(self, scale: Scale) -> list[Cell]:
        names = self._names(scale)
        cells = [sequence_cell(name, o, scale) for o in LAMBDAS.values() for name in names]
        return sorted(cells, key=lambda c: -c.recipe.iterations)

    def facts(self, scale: Scale) -> Json:
        return sequence_facts(self._names(scale), scale)

    def _names(self, scale: Scale) -> list[str]:
        return configurations(scale) if scale is Scale.paper else configurations(scale)[-1:]

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        return [
            claim
            for name, fact in facts.items()
            for claim in self._law_claims(
                name, fact, {k: cells[f"{name}, {o}"] for k, o in LAMBDAS.items()}
            )
        ]

    def _law_claims(self, name: str, fact: Json, row: Json) -> list[Claim]:
        exact = {k: mean(cell, "exact_tv") for k, cell in row.items()}
        sampled = {k: mean(cell, "tv", 1) for k, cell in row.items()}
        accuracy = {k: mean(cell, "accuracy") for k, cell in row.items()}
        best = min(exact, key=lambda k: exact[k])
        ends = max(accuracy["0"], accuracy["inf"])
        return [
            self.claim(
                f"best/{name}",
                f"{name}: lowest exact TV at lambda = inf; at 0 / 0.1 / 1 / 10 / inf: "
                + format_numbers(list(exact.values()), 4, " / "),
                best,
                best == "inf",
                "inf",
            ),
            self.claim(
                f"sampled/{name}",
                f"{name}: TV of {fact['draws']:,} samples (floor {fact['floor']:.4f}) at lambda = "
                "inf within 5 % of the lowest; at 0 / 0.1 / 1 / 10 / inf",
                format_numbers(list(sampled.values()), 4, " / "),
                sampled["inf"] <= 1.05 * min(sampled.values()),
                "inf",
            ),
            self.claim(
                f"accuracy/{name}",
                f"{name}: token accuracy at intermediate lambda above both ends (independent draws "
                f"from the data: {fact['accuracy']:.3f})",
                format_numbers(list(accuracy.values()), 3, " / "),
                all(accuracy[k] > ends for k in ("0.1", "1", "10")),
                "higher",
            ),
        ]
