import importlib
import re
from collections.abc import Iterable
from typing import Any

from discrete_meanflow.errors import InputError

# Of SMILES: an atom in brackets, or of two letters, a ring of two digits; else a letter.
SYMBOL = re.compile(r"\[[^\[\]]*\]|Br|Cl|%\d\d|.", re.DOTALL)
# An atom with all that binds it: a branch that it opens, the bond before it, rings, branches that
# it closes. A string has fewer of these, so that fewer positions have to agree.
BOUND_ATOM = re.compile(
    r"\(?[-=#$:~/\\.]?(?:\[[^\[\]]*\]|Br|Cl|[A-Za-z*])(?:[-=#$:/\\]?(?:\d|%\d\d))*\)*|.",
    re.DOTALL,
)

MOST_BOUND = 512  # of them, up to which they are the symbols


def symbol_of(strings: Iterable[str]) -> re.Pattern[str]:
    """What the symbols of molecules are: bound atoms, unless there are too many of them."""
    found: set[str] = set()
    for string in strings:
        found.update(BOUND_ATOM.findall(string))
        if len(found) > MOST_BOUND:
            return SYMBOL
    return BOUND_ATOM


def rdkit() -> tuple[Any, Any]:
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


def molecule(chem: Any, smiles: str) -> Any | None:
    """What RDKit reads from a string; an empty one is no molecule."""
    found = chem.MolFromSmiles(smiles) if smiles else None
    return found if found is not None and found.GetNumAtoms() else None
