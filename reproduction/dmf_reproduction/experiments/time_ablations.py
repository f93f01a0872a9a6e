"""Table 2: the distribution of the training time pairs (r, t)."""

from typing import ClassVar

from discrete_meanflow.ctmc import chains
from discrete_meanflow.times import LogitNormal, MixedTimes, TimeSampler, UniformGap
from discrete_meanflow.training import Recipe
from dmf_reproduction.engine.experiment import Cell, Claim, Experiment, Json, Scale, mean
from dmf_reproduction.experiments.chain_parts import chain_cell

ITERATIONS = 15_000


class TimePairAblation(Experiment):
    name = "time-pair-ablation"
    title = "Fraction of training pairs with r != t, on the ring"
    where = "table 2 (a)"
    claims_summary = (
        "0 % is worse than every other fraction by more than 10x",
        "all other fractions stay below a kernel TV of 0.005",
    )
    paper: ClassVar = {"0 %": 0.079, "25 %": 0.005, "50 %": 0.003, "100 %": 0.002}
    fractions: ClassVar = {"0 %": 0.0, "25 %": 0.25, "50 %": 0.5, "100 %": 1.0}

    def cells(self, scale: Scale) -> list[Cell]:
        return [
            chain_cell(
                name,
                chains.ring(),
                Recipe(ITERATIONS),
                scale,
                times=MixedTimes(fraction, UniformGap(0.01)),
            )
            for name, fraction in self.fractions.items()
        ]

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        tv = {name: mean(cells[name], "column_tv") for name in self.fractions}
        others = [name for name in tv if name != "0 %"]
        ratio = tv["0 %"] / max(tv[name] for name in others)
        best = min(tv, key=lambda name: tv[name])
        return [
            self.claim(
                "worst/0 %",
                f"0 %: kernel TV {tv['0 %']:.4f}, worse than every other fraction by more than 10x",
                f"{ratio:.1f}x",
                ratio > 10,
                self.paper["0 %"],
            ),
            *(
                self.claim(
                    f"tv/{name}",
                    f"{name} of pairs with r != t: kernel TV below 0.005",
                    tv[name],
                    tv[name] < 0.005,
                    self.paper[name],
                )
                for name in others
            ),
            self.claim("best", "the best fraction is 100 %", best, best == "100 %", "100 %"),
        ]


class TimeSamplerAblation(Experiment):
    name = "time-sampler-ablation"
    title = "Distribution of the time pairs, on the ring"
    where = "table 2 (b)"
    claims_summary = ("every time sampler stays below a kernel TV of 0.005",)
    samplers: ClassVar[dict[str, TimeSampler]] = {
        "uniform": UniformGap(0.01),
        "logit-normal(0, 1)": LogitNormal(0.0),
        "logit-normal(-0.4, 1)": LogitNormal(-0.4),
    }

    def cells(self, scale: Scale) -> list[Cell]:
        return [
            chain_cell(name, chains.ring(), Recipe(ITERATIONS), scale, times=times)
            for name, times in self.samplers.items()
        ]

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        return [
            self.claim(
                f"tv/{name}",
                f"{name}: kernel TV below 0.005",
                mean(cells[name], "column_tv"),
                mean(cells[name], "column_tv") < 0.005,
                0.003,
            )
            for name in self.samplers
        ]
