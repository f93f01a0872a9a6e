"""QM9: small molecules as SMILES, where one wrong symbol makes a string invalid."""

from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy
import torch
from torch import nn

from discrete_meanflow.io.alphabet import Alphabet
from discrete_meanflow.io.chemistry import BOUND_ATOM
from discrete_meanflow.network import DiT
from discrete_meanflow.training import FlowMapDistillation, Recipe
from dmf_reproduction import read
from dmf_reproduction.engine.experiment import Claim, Json, Scale
from dmf_reproduction.experiments.real_data import RealData, Records, by_steps
from dmf_reproduction.molecules import (
    ATOMS,
    Molecule,
    count_tv,
    count_tv_deviation,
    read_smiles,
)
from dmf_reproduction.settings import FACTORISED, FLOW_MAP

HELD_OUT = 10_000
VALID, UNIQUE, NOVELTY, COUNTS = 0.4, 0.95, 0.05, 0.1  # bars
STRETCH = 0.5
RECIPE = Recipe(14_000, batch=1024, learning_rate=6e-4, ema_decay=0.9995, bf16=True, muon_ratio=4.0)


class JointMolecules(RealData):
    name = "joint-molecules"
    title = "QM9: one-step SMILES, checked by RDKit"
    claims_summary = (
        "at least 40 % of one-step SMILES are valid (stretch goal: 50 %), 95 % of those unique",
        "TV of length, rings and atoms to held-out molecules at most 0.1",
    )
    minibatch_ot = 1024
    recipes: ClassVar = {FLOW_MAP: RECIPE, FACTORISED: replace(RECIPE, iterations=8_000)}
    distillations = (
        FlowMapDistillation(
            3_000_000, 16, replace(RECIPE, iterations=34_000), full_interval_fraction=0.9
        ),
    )

    def read(self) -> Records:
        smiles = read.lines(self.file("qm9_smiles/qm9_rdkit_valid_canonical_unique.smi"))
        alphabet = Alphabet.of(smiles, BOUND_ATOM)
        held_out = min(HELD_OUT, len(smiles) // 4)
        return Records(*read.split(alphabet.encode(smiles), held_out), alphabet)

    def network(self, states: int, length: int, scale: Scale) -> nn.Module:
        # One pass resolves brackets, rings and valences in turn: depth matters more than width.
        size = (384, 12, 6) if scale is Scale.paper else (16, 1, 2)
        return DiT(states, length, *size)

    @cached_property
    def known(self) -> set[str]:
        """Training molecules, as canonical SMILES."""
        return set(self.records.alphabet.decode(self.records.train))

    @cached_property
    def held_out(self) -> list[str]:
        return self.records.alphabet.decode(self.records.held_out)

    @cached_property
    def real(self) -> list[Molecule]:
        return read_smiles(self.held_out)

    def facts(self, scale: Scale) -> Json:
        """With the scores of as many training molecules as samples."""
        order = numpy.random.default_rng(0).permutation(len(self.records.train))[: self.draws]
        train = self.records.alphabet.decode(self.records.train[torch.from_numpy(order)])
        counts = _counts(self.score(train))
        return super().facts(scale) | {"counts of training molecules": counts}

    def score(self, samples: list[str]) -> Json:
        from scipy.stats import wasserstein_distance

        molecules = read_smiles(samples)
        lengths, real = [m.length for m in molecules], [m.length for m in self.real]
        distinct = {m.canonical for m in molecules}
        new = len(distinct - self.known)
        return {
            "valid": len(molecules) / len(samples),
            "unique": len(distinct) / max(1, len(molecules)),
            "novel": new / max(1, len(distinct)),
            "copies": sum(s in self.known for s in samples) / len(samples),
            "tv_length": count_tv(lengths, real),
            "tv_length_deviation": count_tv_deviation(lengths, real),
            # Long strings are more often invalid, so this one includes all strings.
            "tv_length_of_all": count_tv(list(map(len, samples)), list(map(len, self.held_out))),
            "tv_rings": count_tv([m.rings for m in molecules], [m.rings for m in self.real]),
            "tv_atoms": {
                atom: count_tv([m.atoms[i] for m in molecules], [m.atoms[i] for m in self.real])
                for i, atom in enumerate(ATOMS)
            },
            "wasserstein": {
                key: wasserstein_distance(
                    [getattr(m, key) for m in molecules] or [0.0],
                    [getattr(m, key) for m in self.real],
                )
                for key in ("log_p", "qed", "weight")
            },
            "shown": samples[:40],
        }

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        scores = facts["scores"]
        one, many = scores[FLOW_MAP]["1"], scores[FLOW_MAP]["64"]
        return [
            self.claim(
                "valid",
                f"at least {VALID:.0%} of one-step SMILES are valid (stretch goal {STRETCH:.0%}); "
                f"{by_steps(scores, 'valid')}",
                one["valid"],
                one["valid"] >= VALID,
            ),
            self.claim(
                "unique",
                f"at least {UNIQUE:.0%} of the valid ones are unique",
                one["unique"],
                one["unique"] >= UNIQUE,
            ),
            self.claim(
                "novel",
                f"novelty within 5 points of that of 64 steps, {many['novel']:.3f} (copies of "
                f"training strings {one['copies']:.3f})",
                one["novel"],
                abs(one["novel"] - many["novel"]) <= NOVELTY,
            ),
            self._counts_claim(one, max(facts["counts of training molecules"].values())),
        ]

    def _counts_claim(self, score: Json, floor: float) -> Claim:
        counts, distance = _counts(score), score["wasserstein"]
        return self.claim(
            "counts",
            f"TV of length, rings and atoms of the valid ones to held-out molecules at most "
            f"{COUNTS} (training molecules: at most {floor:.3f}; standard deviation of the length "
            f"TV {score['tv_length_deviation']:.3f}; length of all strings "
            f"{score['tv_length_of_all']:.3f}; Wasserstein: logP {distance['log_p']:.3f}, "
            f"QED {distance['qed']:.4f}, weight {distance['weight']:.2f})",
            ", ".join(f"{key} {value:.3f}" for key, value in counts.items()),
            max(counts.values()) <= COUNTS,
        )


def _counts(score: Json) -> dict[str, float]:
    """TV of each count of a molecule."""
    return {"length": score["tv_length"], "rings": score["tv_rings"], **score["tv_atoms"]}
