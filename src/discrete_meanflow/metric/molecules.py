"""What SMILES strings are worth, by RDKit."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy

from discrete_meanflow.data.chemistry import molecule, rdkit

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


def read_smiles(strings: Iterable[str]) -> list[Molecule]:
    """Those that are valid; an empty string is none."""
    Chem, Descriptors = rdkit()
    found = []
    for string in strings:
        read = molecule(Chem, string)
        if read is None:
            continue
        kinds = Counter(atom.GetSymbol() for atom in read.GetAtoms())
        found.append(
            Molecule(
                Chem.MolToSmiles(read),
                len(string),
                Descriptors.RingCount(read),
                tuple(kinds[atom] for atom in ATOMS),
                Descriptors.MolLogP(read),
                Descriptors.qed(read),
                Descriptors.MolWt(read),
            )
        )
    return found


def count_tv(a: Sequence[int], b: Sequence[int]) -> float:
    """TV between the laws of two lists of counts; 1 if one list is empty."""
    if not a or not b:
        return 1.0
    p, q = Counter(a), Counter(b)
    return sum(abs(p[k] / len(a) - q[k] / len(b)) for k in p.keys() | q.keys()) / 2


def count_tv_deviation(a: Sequence[int], b: Sequence[int], lists: int = 500) -> float:
    """The standard deviation of ``count_tv``, by drawing both lists anew from themselves."""
    if not a or not b:
        return 0.0
    g = numpy.random.default_rng(0)
    kinds = sorted({*a, *b})
    p, q = (g.multinomial(len(each), _shares(each, kinds), lists) / len(each) for each in (a, b))
    return float((numpy.abs(p - q).sum(1) / 2).std())


def _shares(counts: Sequence[int], kinds: Sequence[int]) -> list[float]:
    found = Counter(counts)
    return [found[kind] / len(counts) for kind in kinds]
