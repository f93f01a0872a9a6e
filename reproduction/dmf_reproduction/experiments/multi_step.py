"""Multi-step generation: does composing learned kernels help or hurt?"""

from dmf_reproduction.engine.experiment import (
    Cell,
    Claim,
    Experiment,
    Json,
    Scale,
    format_numbers,
    mean_at_steps,
)
from dmf_reproduction.experiments.sequence_parts import (
    composed_exactly,
    configurations,
    sequence_cell,
    sequence_facts,
)

TOLERANCE = 1.05  # smaller changes of TV do not count
OBJECTIVES = ("KR", "PR")


class MultiStep(Experiment):
    name = "multi-step"
    title = "1, 2, 4 and 8 steps for kernel residual and posterior regression"
    where = "appendix, multi-step generation and step-count comparison"
    claims_summary = (
        "TV grows from 1 to 8 steps for KR",
        "TV does not grow for PR",
        "on dependent data, the exact posterior loses as much as PR; pairs improve",
    )
    reuses_cells_of = ("objective-comparison",)

    def cells(self, scale: Scale) -> list[Cell]:
        names = configurations(scale)
        return [sequence_cell(name, o, scale) for o in OBJECTIVES for name in names]

    def facts(self, scale: Scale) -> Json:
        facts = sequence_facts(configurations(scale), scale)
        for name in facts:
            facts[name]["exact"] = composed_exactly(name, scale)
        return facts

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        dependent = [name for name in facts if name.startswith("bigram")]
        return [
            *(
                self._steps_claim(name, o, fact, cells[f"{name}, {o}"])
                for o in OBJECTIVES
                for name, fact in facts.items()
            ),
            *(self._cause_claim(name, facts[name], cells[f"{name}, PR"]) for name in dependent),
            *(
                self._pairs_claim(name, o, facts[name], cells[f"{name}, {o}"])
                for o in OBJECTIVES
                for name in dependent
            ),
        ]

    def _steps_claim(self, name: str, objective: str, fact: Json, cell: Json) -> Claim:
        tv, few = mean_at_steps(cell, "tv_many"), mean_at_steps(cell, "tv")
        grows = tv[-1] > TOLERANCE * tv[0]
        expected = "grows" if objective == "KR" else "does not grow"
        return self.claim(
            f"steps/{objective}/{name}",
            f"{name}, {objective}: TV {expected} by more than 5 % from 1 to 8 steps; at 1/2/4/8 "
            f"steps from {fact['many_draws']:,} samples (from {fact['draws']:,}: "
            f"{format_numbers(few, 4)})",
            format_numbers(tv, 4),
            grows if objective == "KR" else not grows,
            expected,
        )

    def _cause_claim(self, name: str, fact: Json, PR: Json) -> Claim:
        exact = fact["exact"]["tv_many"]
        ratios = [a / b for a, b in zip(mean_at_steps(PR, "tv_many"), exact, strict=True)][1:]
        return self.claim(
            f"cause/{name}",
            f"{name}: at 2, 4 and 8 steps, PR has the TV of the exact p(x1 | x_r) within 30 % "
            f"({format_numbers(ratios, 2)}x); TV of the exact posterior at 1/2/4/8 steps",
            format_numbers(exact, 4),
            all(1 / 1.3 <= ratio <= 1.3 for ratio in ratios),
        )

    def _pairs_claim(self, name: str, objective: str, fact: Json, cell: Json) -> Claim:
        tv = mean_at_steps(cell, "pair_tv")
        return self.claim(
            f"pairs/{objective}/{name}",
            f"{name}, {objective}: TV of adjacent pairs falls by half or more from 1 to 8 steps "
            f"(product of marginals {fact['product_pair_tv']:.3f}; exact p(x1 | x_r) "
            f"{format_numbers(fact['exact']['pair_tv'])})",
            format_numbers(tv),
            tv[-1] <= 0.5 * tv[0],
        )
