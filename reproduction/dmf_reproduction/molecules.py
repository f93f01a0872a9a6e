"""Statistics of SMILES strings, by RDKit."""

import importlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.chemistry import parse_molecule

ATOMS = ("C", "N", "O", "F")


@dataclass(frozen=True)
class Molecule:
    """Properties compared between generated and real molecules."""

    canonical: str
    length: int  # of the SMILES string
    rings: int
    atoms: tuple[int, ...]  # count of each element in ATOMS
    log_p: float
    qed: float
    weight: float


def read_smiles(strings: Iterable[str]) -> list[Molecule]:
    """The valid molecules; invalid and empty strings are skipped."""
    try:
        chem, descriptors = map(importlib.import_module, ("rdkit.Chem", "rdkit.Chem.Descriptors"))
    except ImportError:
        raise InputError(
            "molecule metrics need RDKit: pip install 'discrete-meanflow[molecules]'"
        ) from None
    molecules = []
    for string in strings:
        parsed = parse_molecule(string)
        if parsed is None:
            continue
        elements = Counter(atom.GetSymbol() for atom in parsed.GetAtoms())
        molecules.append(
            Molecule(
                chem.MolToSmiles(parsed),
                len(string),
                descriptors.RingCount(parsed),
                tuple(elements[atom] for atom in ATOMS),
                descriptors.MolLogP(parsed),
                descriptors.qed(parsed),
                descriptors.MolWt(parsed),
            )
        )
    return molecules


def count_tv(a: Sequence[int], b: Sequence[int]) -> float:
    """Total variation between the empirical laws of two lists of counts; 1 if one is empty."""
    if not a or not b:
        return 1.0
    p, q = Counter(a), Counter(b)
    return sum(abs(p[k] / len(a) - q[k] / len(b)) for k in p.keys() | q.keys()) / 2


def count_tv_deviation(a: Sequence[int], b: Sequence[int], resamples: int = 500) -> float:
    """Bootstrap standard deviation of ``count_tv``."""
    if not a or not b:
        return 0.0
    g = numpy.random.default_rng(0)
    values = sorted({*a, *b})
    p, q = (g.multinomial(len(x), _frequencies(x, values), resamples) / len(x) for x in (a, b))
    return float((numpy.abs(p - q).sum(1) / 2).std())


def _frequencies(counts: Sequence[int], values: Sequence[int]) -> list[float]:
    occurrences = Counter(counts)
    return [occurrences[value] / len(counts) for value in values]
