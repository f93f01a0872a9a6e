"""QM9: small molecules written as SMILES, where one wrong symbol makes nonsense."""

from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy
import torch
from torch import nn

from discrete_meanflow.data import Alphabet, read, split
from discrete_meanflow.data.chemistry import BOUND_ATOM
from discrete_meanflow.metric.molecules import (
    ATOMS,
    Molecule,
    count_tv,
    count_tv_deviation,
    read_smiles,
)
from discrete_meanflow.network import DiT
from discrete_meanflow.training import FlowMapDistillation, Recipe
from dmf_reproduction.engine.experiment import Claim, Json, Scale, in_words
from dmf_reproduction.experiments.real_data import RealData, Records, at_steps

HELD_OUT = 10_000
VALID, UNIQUE, NOVELTY, COUNTS = 0.4, 0.95, 0.05, 0.1  # bars
STRETCH = 0.5
RECIPE = Recipe(14_000, batch=1024, learning_rate=6e-4, ema_decay=0.9995, bf16=True, muon_ratio=4.0)


class JointMolecules(RealData):
    name = "joint-molecules"
    title = "QM9: SMILES in one step, judged by RDKit"
    claims_summary = (
        "at least 40 % of one-step SMILES valid (stretch: 50 %), 95 % of those unique",
        "length, rings and atoms within TV 0.1 of held-out molecules",
    )
    minibatch_ot = 1024
    recipes: ClassVar = {"soft": RECIPE, "factorised": replace(RECIPE, iterations=8_000)}
    couplings = (FlowMapDistillation(3_000_000, 16, replace(RECIPE, iterations=34_000), whole=0.9),)

    def cut(self) -> Records:
        smiles = read.lines(self.file("qm9_smiles/qm9_rdkit_valid_canonical_unique.smi"))
        alphabet = Alphabet.of(smiles, BOUND_ATOM)
        held_out = min(HELD_OUT, len(smiles) // 4)
        return Records(*split(alphabet.encode(smiles), held_out), alphabet)

    def network(self, states: int, length: int, scale: Scale) -> nn.Module:
        # One pass has to settle brackets, rings and valences in turn: depth rather than width.
        size = (384, 12, 6) if scale is Scale.paper else (16, 1, 2)
        return DiT(states, length, *size)

    @cached_property
    def known(self) -> set[str]:
        """Training molecules, which are canonical SMILES as they stand."""
        return set(self.records.alphabet.decode(self.records.train))

    @cached_property
    def held_out(self) -> list[str]:
        return self.records.alphabet.decode(self.records.held_out)

    @cached_property
    def real(self) -> list[Molecule]:
        return read_smiles(self.held_out)

    def facts(self, scale: Scale) -> Json:
        """With what as many training molecules score in the place of samples."""
        order = numpy.random.default_rng(0).permutation(len(self.records.train))[: self.draws]
        some = self.records.alphabet.decode(self.records.train[torch.from_numpy(order)])
        return super().facts(scale) | {"counts of training molecules": _counts(self.score(some))}

    def score(self, samples: list[str]) -> Json:
        from scipy.stats import wasserstein_distance

        found = read_smiles(samples)
        lengths, real = [m.length for m in found], [m.length for m in self.real]
        distinct = {m.canonical for m in found}
        new = len(distinct - self.known)
        return {
            "valid": len(found) / len(samples),
            "unique": len(distinct) / max(1, len(found)),
            "novel": new / max(1, len(distinct)),
            "copies": sum(s in self.known for s in samples) / len(samples),
            "tv_length": count_tv(lengths, real),
            "tv_length_deviation": count_tv_deviation(lengths, real),
            # Long strings are the first to be invalid: this one is of all that were decoded.
            "tv_length_of_all": count_tv(list(map(len, samples)), list(map(len, self.held_out))),
            "tv_rings": count_tv([m.rings for m in found], [m.rings for m in self.real]),
            "tv_atoms": {
                atom: count_tv([m.atoms[i] for m in found], [m.atoms[i] for m in self.real])
                for i, atom in enumerate(ATOMS)
            },
            "wasserstein": {
                key: wasserstein_distance(
                    [getattr(m, key) for m in found] or [0.0], [getattr(m, key) for m in self.real]
                )
                for key in ("log_p", "qed", "weight")
            },
            "shown": samples[:40],
        }

    def verdicts(self, facts: Json) -> list[Claim]:
        scores = facts["scores"]
        one, many = scores["soft"]["1"], scores["soft"]["64"]
        valid, hard = (at_steps(scores, kind, "valid") for kind in ("soft", "factorised"))
        counts, floor = _counts(one), max(facts["counts of training molecules"].values())
        far = one["wasserstein"]
        return [
            self._claim(
                "valid",
                f"at least {VALID:.0%} of one-step SMILES valid (stretch {STRETCH:.0%}); at 1 2 4 "
                f"8 16 64 steps {in_words(valid)}; factorised {in_words(hard)}",
                one["valid"],
                one["valid"] >= VALID,
            ),
            self._claim(
                "unique",
                f"at least {UNIQUE:.0%} of the valid ones unique",
                one["unique"],
                one["unique"] >= UNIQUE,
            ),
            self._claim(
                "novel",
                f"novelty within 5 points of the 64-step sampler's {many['novel']:.3f} (copies of "
                f"training strings {one['copies']:.3f}; held-out molecules 0 by the split)",
                one["novel"],
                abs(one["novel"] - many["novel"]) <= NOVELTY,
            ),
            self._claim(
                "counts",
                f"length, rings and atoms of the valid ones each within TV {COUNTS} of held-out "
                f"molecules (as many training molecules: at most {floor:.3f}; deviation of the "
                f"length's {one['tv_length_deviation']:.3f}; length of all strings "
                f"{one['tv_length_of_all']:.3f}; Wasserstein: logP {far['log_p']:.3f}, "
                f"QED {far['qed']:.4f}, weight {far['weight']:.2f})",
                ", ".join(f"{key} {value:.3f}" for key, value in counts.items()),
                max(counts.values()) <= COUNTS,
            ),
        ]


def _counts(score: Json) -> dict[str, float]:
    """TV of the counts of a molecule, by what is counted."""
    return {"length": score["tv_length"], "rings": score["tv_rings"], **score["tv_atoms"]}
