"""What SMILES strings are worth, by RDKit."""

import importlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from discrete_meanflow.errors import InputError

ATOMS = ("C", "N", "O", "F")


@dataclass(frozen=True)
class Molecule:
    """What is compared between generated and real molecules."""

    canonical: str
    length: int  # of the string it was written as
    rings: int
    atoms: tuple[int, ...]  # of each kind in ATOMS
    log_p: float
    qed: float
    weight: float


def chemistry() -> tuple[Any, Any]:
    """RDKit's reader, silent about what it cannot read, and its descriptors."""
    try:
        chem, log, descriptors = (
            importlib.import_module(f"rdkit.{part}")
            for part in ("Chem", "RDLogger", "Chem.Descriptors")
        )
    except ImportError:
        raise InputError(
            "molecules are judged by RDKit: pip install 'discrete-meanflow[molecules]'"
        ) from None
    log.DisableLog("rdApp.*")
    return chem, descriptors


def read_smiles(strings: Iterable[str]) -> list[Molecule]:
    """Those that are valid; an empty string is none."""
    Chem, Descriptors = chemistry()
    found = []
    for string in strings:
        molecule = Chem.MolFromSmiles(string) if string else None
        if molecule is None or molecule.GetNumAtoms() == 0:
            continue
        kinds = Counter(atom.GetSymbol() for atom in molecule.GetAtoms())
        found.append(
            Molecule(
                Chem.MolToSmiles(molecule),
                len(string),
                Descriptors.RingCount(molecule),
                tuple(kinds[atom] for atom in ATOMS),
                Descriptors.MolLogP(molecule),
                Descriptors.qed(molecule),
                Descriptors.MolWt(molecule),
            )
        )
    return found


def count_tv(a: Sequence[int], b: Sequence[int]) -> float:
    """TV between the laws of two lists of counts; 1 if one list is empty."""
    if not a or not b:
        return 1.0
    p, q = Counter(a), Counter(b)
    return sum(abs(p[k] / len(a) - q[k] / len(b)) for k in p.keys() | q.keys()) / 2
