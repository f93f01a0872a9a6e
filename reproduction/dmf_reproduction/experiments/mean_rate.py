"""The figure of the mean discrete rate: K and ubar from one state over time. Nothing is trained."""

import torch

from discrete_meanflow.ctmc import chains
from discrete_meanflow.ctmc.mean_rate import identity_residual, integral_form, mean_rate
from discrete_meanflow.ctmc.transition import transition
from dmf_reproduction.engine.experiment import Cell, Claim, Experiment, Json, Scale

SOURCE = 1


class MeanRate(Experiment):
    name = "mean-rate"
    title = "The kernel and the mean discrete rate from one state of the ring, over time"
    where = "section 4.1, figure 'The mean discrete rate'"
    claims_summary = (
        "columns of ubar sum to zero; off-diagonal entries gain, the source loses",
        "the identity and its integral form hold to float64 precision",
    )

    def cells(self, scale: Scale) -> list[Cell]:
        return []

    def facts(self, scale: Scale) -> Json:
        ring = chains.ring()
        t = torch.linspace(0.02, 1, 50, dtype=torch.float64)
        rate = mean_rate(ring, 0.0, t)
        return {
            "t": t.tolist(),
            "source": SOURCE,
            "kernel": transition(ring, 0.0, t)[:, :, SOURCE].tolist(),
            "mean_rate": rate[:, :, SOURCE].tolist(),
            "identity_residual": identity_residual(ring, 0.0, t).abs().max().item(),
            "integral_gap": (integral_form(ring, 0.0, t) - rate).abs().max().item(),
        }

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        columns = facts["mean_rate"]
        worst = max(abs(sum(column)) for column in columns)
        signs = all(
            (value <= 0) if y == facts["source"] else (value >= 0)
            for column in columns
            for y, value in enumerate(column)
        )
        residual, gap = facts["identity_residual"], facts["integral_gap"]
        return [
            Claim("sums", "columns of ubar sum to zero", self.where, 0.0, worst, worst < 1e-12),
            Claim(
                "signs",
                "the source loses probability, every other state gains",
                self.where,
                "yes",
                "yes" if signs else "no",
                signs,
            ),
            Claim(
                "identity",
                "residual of the identity",
                "theorem 4.1",
                0.0,
                residual,
                residual < 1e-10,
            ),
            Claim("integral", "gap of the integral form", "equation 14", 0.0, gap, gap < 1e-8),
        ]
