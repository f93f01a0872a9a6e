"""What SMILES strings are worth, by RDKit."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
