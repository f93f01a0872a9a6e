"""Symbols of SMILES strings, and RDKit."""

import importlib
import re
from collections.abc import Iterable
from typing import Any

from discrete_meanflow.errors import InputError

# A bracket atom, a two-letter atom, a two-digit ring closure, or one character.
SYMBOL = re.compile(r"\[[^\[\]]*\]|Br|Cl|%\d\d|.", re.DOTALL)
# A bound atom: an atom with the branch it opens, the bond before it, its ring closures and the
# branches it closes. Strings have fewer bound atoms than atoms, so fewer positions must agree.
BOUND_ATOM = re.compile(
    r"\(?[-=#$:~/\\.]?(?:\[[^\[\]]*\]|Br|Cl|[A-Za-z*])(?:[-=#$:/\\]?(?:\d|%\d\d))*\)*|.",
    re.DOTALL,
)

MAX_BOUND_ATOMS = 512  # distinct ones; with more, atoms and bonds are separate symbols


def choose_symbols(strings: Iterable[str]) -> re.Pattern[str]:
    """``BOUND_ATOM`` unless there are too many distinct bound atoms, then ``SYMBOL``."""
    bound_atoms: set[str] = set()
    for string in strings:
        bound_atoms.update(BOUND_ATOM.findall(string))
        if len(bound_atoms) > MAX_BOUND_ATOMS:
            return SYMBOL
    return BOUND_ATOM


def import_rdkit() -> tuple[Any, Any]:
    """The modules ``rdkit.Chem`` and ``rdkit.Chem.Descriptors``, with logging disabled."""
    try:
        chem, log, descriptors = (
            importlib.import_module(f"rdkit.{part}")
            for part in ("Chem", "RDLogger", "Chem.Descriptors")
        )
    except ImportError:
        raise InputError(
            "molecule metrics need RDKit: pip install 'discrete-meanflow[molecules]'"
        ) from None
    log.DisableLog("rdApp.*")
    return chem, descriptors


def parse_molecule(chem: Any, smiles: str) -> Any | None:
    """RDKit's molecule, or None if the string is invalid or empty."""
    molecule = chem.MolFromSmiles(smiles) if smiles else None
    return molecule if molecule is not None and molecule.GetNumAtoms() else None
