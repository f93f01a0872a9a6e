"""The hybrid loss KR + lambda CE: do the two help each other?"""

from dmf_reproduction.engine.experiment import Cell, Claim, Experiment, Json, Scale, mean
from dmf_reproduction.experiments.sequence_parts import (
    configurations,
    sequence_cell,
    sequence_facts,
)

# lambda in words -> the objective's name
LAMBDAS = {"0": "KR", "0.1": "KR + 0.1 CE", "1": "KR + 1 CE", "10": "KR + 10 CE", "inf": "KCE"}


class HybridSweep(Experiment):
    name = "hybrid-sweep"
    title = "The hybrid loss KR + lambda CE, lambda in {0, 0.1, 1, 10, inf}, one seed"
    where = "appendix, hybrid loss sweep"
    claims_summary = (
        "the best TV is at lambda = inf in all configurations",
        "in between, token accuracy rises and TV gets worse (paper)",
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
        claims = []
        for name, fact in facts.items():
            row = {k: cells[f"{name}, {o}"] for k, o in LAMBDAS.items()}
            tv = {k: mean(cell, "exact_tv") for k, cell in row.items()}
            best = min(tv, key=lambda k: tv[k])
            claims.append(
                Claim(
                    f"best/{name}",
                    f"{name}: lowest exact TV at lambda = inf; at 0 / 0.1 / 1 / 10 / inf: "
                    + " / ".join(f"{v:.4f}" for v in tv.values()),
                    self.where,
                    "inf",
                    best,
                    best == "inf",
                )
            )
            sampled = {k: mean(cell, "tv", 1) for k, cell in row.items()}
            claims.append(
                Claim(
                    f"sampled/{name}",
                    f"{name}: {fact['draws']:,} samples (floor {fact['floor']:.4f}): lambda = inf "
                    "within 5 % of the lowest TV; at 0 / 0.1 / 1 / 10 / inf",
                    self.where,
                    "inf",
                    " / ".join(f"{v:.4f}" for v in sampled.values()),
                    sampled["inf"] <= 1.05 * min(sampled.values()),
                )
            )
            between = [row[k] for k in ("0.1", "1", "10")]
            ends = [row[k] for k in ("0", "inf")]
            overconfident = all(
                mean(cell, "accuracy") > max(mean(end, "accuracy") for end in ends)
                for cell in between
            )
            claims.append(
                Claim(
                    f"accuracy/{name}",
                    f"{name}: token accuracy in between above both ends "
                    f"(a draw from the truth: {fact['accuracy']:.3f})",
                    self.where,
                    "higher",
                    " / ".join(f"{mean(cell, 'accuracy'):.3f}" for cell in row.values()),
                    overconfident,
                )
            )
        return claims
