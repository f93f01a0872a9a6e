"""Beyond the paper: the cost of a noisy target, and the transition likelihood as a baseline."""

from collections.abc import Callable

from discrete_meanflow.ctmc import chains
from discrete_meanflow.ctmc.generator import RateGenerator
from discrete_meanflow.objective import (
    ExactExpectation,
    KernelResidual,
    ModelExpectation,
    Objective,
    SampledRate,
    TransitionLikelihood,
)
from discrete_meanflow.process import ChainProcess
from discrete_meanflow.training import Recipe
from dmf_reproduction.engine.experiment import Cell, Claim, Experiment, Json, Scale, mean
from dmf_reproduction.experiments.chain_parts import chain_cell, single_sample

ITERATIONS = 8_000
OBJECTIVES: dict[str, Callable[[ChainProcess], Objective]] = {
    "single sample": single_sample,
    "8 samples": lambda process: KernelResidual(SampledRate(process, 8)),
    "exact expectation": lambda process: KernelResidual(ExactExpectation(process)),
    "model expectation": lambda process: KernelResidual(ModelExpectation(process)),
    "transition likelihood": lambda process: TransitionLikelihood(),
}


class ChainObjectives(Experiment):
    name = "chain-objectives"
    title = "Estimators and the transition likelihood: 8,000 iterations, learning rate 1e-3"
    where = "beyond the paper"
    of_the_paper = False
    claims_summary = (
        "the exact expectation beats sampled estimators and the transition likelihood",
        "the model's own expectation is within 1.25x of the exact one",
        "Chapman-Kolmogorov: expectations compose better than a single sample",
    )

    def generators(self, scale: Scale) -> dict[str, RateGenerator]:
        """The paper's chains and one with time-dependent rates; the ring at toy scale."""
        if scale is Scale.toy:
            return {"ring": chains.ring()}
        return {**chains.paper_chains(), "tilting birth-death": chains.tilting_birth_death()}

    def cells(self, scale: Scale) -> list[Cell]:
        return [
            chain_cell(
                f"{chain}, {name}",
                generator,
                Recipe(ITERATIONS, learning_rate=1e-3),
                scale,
                objective=objective,
            )
            for chain, generator in self.generators(scale).items()
            for name, objective in OBJECTIVES.items()
        ]

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        names = dict.fromkeys(name.rpartition(", ")[0] for name in cells)
        return [claim for chain in names for claim in self._chain_claims(chain, cells)]

    def _chain_claims(self, chain: str, cells: Json) -> list[Claim]:
        errors = {name: mean(cells[f"{chain}, {name}"], "max_error") for name in OBJECTIVES}
        defects = {name: mean(cells[f"{chain}, {name}"], "defect") for name in OBJECTIVES}
        model = errors.pop("model expectation")
        best = min(errors, key=lambda name: errors[name])
        return [
            self.claim(
                f"best/{chain}",
                f"{chain}: the exact expectation has the lowest maximum error",
                ", ".join(f"{name} {error:.1e}" for name, error in errors.items()),
                best == "exact expectation",
            ),
            self.claim(
                f"model/{chain}",
                f"{chain}: the model's own expectation, which needs no draw and no exact kernel, "
                "is within 1.25x of the error of the exact one",
                model,
                model <= 1.25 * errors["exact expectation"],
            ),
            self.claim(
                f"defect/{chain}",
                f"{chain}: Chapman-Kolmogorov, maximum |K_(s,t) K_(r,s) - K_(r,t)|: both "
                "expectations compose better than a single sample and than the likelihood",
                ", ".join(f"{name} {value:.1e}" for name, value in defects.items()),
                max(defects["exact expectation"], defects["model expectation"])
                < min(defects["single sample"], defects["transition likelihood"]),
            ),
        ]
