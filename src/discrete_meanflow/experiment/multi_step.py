"""Multi-step generation: does composing learned kernels help or hurt?"""

from discrete_meanflow.experiment.base import STEPS, Cell, Claim, Experiment, Json, Scale, mean
from discrete_meanflow.experiment.sequence_parts import (
    configurations,
    sequence_cell,
    sequence_facts,
)

SAME = 1.05  # a change of TV by less than this factor is none


class MultiStep(Experiment):
    name = "multi-step"
    title = "1, 2, 4 and 8 steps for kernel residual and posterior regression"
    where = "appendix, multi-step generation and step-count comparison"
    promises = ("TV grows from 1 to 8 steps for KR", "it does not for PR")
    borrows_from = ("objective-comparison",)

    def cells(self, scale: Scale) -> list[Cell]:
        names = configurations(scale)
        return [sequence_cell(name, o, scale) for o in ("KR", "PR") for name in names]

    def facts(self, scale: Scale) -> Json:
        return sequence_facts(configurations(scale), scale)

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        return [
            self._claim(name, o, fact, cells[f"{name}, {o}"])
            for o in ("KR", "PR")
            for name, fact in facts.items()
        ]

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
