"""The figure of the mean discrete rate: K and ubar from one state over time, without training."""

import torch

from discrete_meanflow.ctmc import chains
from discrete_meanflow.ctmc.mean_rate import identity_residual, integral_form, mean_rate
from discrete_meanflow.ctmc.transition import transition
from dmf_reproduction.engine.experiment import Cell, Claim, Experiment, Json, Scale

SOURCE = 1


class MeanRate(Experiment):
    name = "mean-rate"
    title = "Kernel and mean discrete rate from one state of the ring, over time"
    where = "section 4.1, figure 'The mean discrete rate'"
    claims_summary = (
        "columns of ubar sum to zero; the source state loses probability, the others gain",
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
            self.claim("sums", "columns of ubar sum to zero", worst, worst < 1e-12, 0.0),
            self.claim(
                "signs",
                "the source state loses probability, every other state gains",
                "yes" if signs else "no",
                signs,
                "yes",
            ),
            self.claim(
                "identity",
                "residual of the identity",
                residual,
                residual < 1e-10,
                0.0,
                "theorem 4.1",
            ),
            self.claim("integral", "gap of the integral form", gap, gap < 1e-8, 0.0, "equation 14"),
        ]
