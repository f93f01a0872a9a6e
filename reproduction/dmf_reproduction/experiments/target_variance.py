"""Figure 5: variance and norm of the kernel-residual target against t, without training."""

import math

import torch

from discrete_meanflow.process import Masking
from discrete_meanflow.simplex import delta
from dmf_reproduction.engine.experiment import Cell, Claim, Experiment, Json, Scale
from dmf_reproduction.experiments.sequence_parts import law

TIMES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.99)
CONFIGURATION = "independent (8, 16)"
DRAWS = 5_000


class TargetVariance(Experiment):
    name = "target-variance"
    title = "Variance and norm of the kernel-residual target against t"
    where = "figure 5"
    claims_summary = (
        "on masked positions, the variance relative to that of PR grows as 1/(1-t)^2",
        "it exceeds that of PR by more than 1500x at t = 0.99 (paper)",
        "the norm of the target is sqrt(V)/(1-t) (paper); we measure sqrt(2)/(1-t)",
    )

    def cells(self, scale: Scale) -> list[Cell]:
        return []

    def facts(self, scale: Scale) -> Json:
        """At each t: per-element variance of both targets over masked positions, and norms."""
        data = law(CONFIGURATION)
        process = Masking(data.vocabulary)
        g = torch.Generator().manual_seed(0)
        rows = []
        for time in TIMES:
            x1 = data.sample((scale.draws(DRAWS),), g)
            t = torch.full((1, 1), time, dtype=torch.float64)
            x_t = process.corrupt(x1, t, g)
            masked = x_t == process.token
            rates = process.rate(x_t, t, x1)
            target = rates[masked]
            other = data.sample((scale.draws(DRAWS),), g)  # independent of x1
            clean = delta(other, process.states, torch.float64).flatten(0, 1)
            rows.append(
                {
                    "t": time,
                    "masked": int(masked.sum()),
                    "KR": target.var(0).mean().item(),
                    "PR": clean.var(0).mean().item(),
                    "KR, all positions": rates.flatten(0, 1).var(0).mean().item(),
                    "norm": target.norm(dim=-1).mean().item(),
                }
            )
        return {"vocabulary": data.vocabulary, "rows": rows}

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        rows = facts["rows"]
        ratio = {row["t"]: row["KR"] / row["PR"] for row in rows}
        slope = max(abs(v * (1 - t) ** 2 - 1) for t, v in ratio.items())
        paper = math.sqrt(facts["vocabulary"])
        constants = [row["norm"] * (1 - row["t"]) for row in rows]
        everywhere = rows[-1]["KR, all positions"] / rows[-1]["PR"]
        return [
            self.claim(
                "growth",
                "masked positions: the variance ratio KR / PR is 1/(1-t)^2 at every t, which "
                "follows from g = (delta_{x1} - delta_{mask})/(1-t); largest relative deviation",
                f"{slope:.1%}",
                slope < 0.15,
                "1/(1-t)^2",
            ),
            self.claim(
                "ratio",
                "variance ratio at t = 0.99 above 1500 on masked positions (on all positions: "
                f"{everywhere:.0f})",
                ratio[0.99],
                ratio[0.99] > 1500,
                "> 1500",
            ),
            self.claim(
                "norm",
                "norm of the target times (1-t) is sqrt(V), as the paper states; we measure "
                "sqrt(2), because delta_{x1} - delta_{mask} has two nonzero entries",
                sum(constants) / len(constants),
                max(abs(c - paper) for c in constants) < 0.01 * paper,
                paper,
            ),
        ]
