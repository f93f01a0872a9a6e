"""Symbols of SMILES strings, and RDKit."""

import re
from collections.abc import Iterable
from typing import Any

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


def parse_molecule(smiles: str) -> Any | None:
    """RDKit's molecule, or None if the string is invalid or empty."""
    from rdkit import Chem, rdBase

    rdBase.DisableLog("rdApp.*")
    molecule = Chem.MolFromSmiles(smiles) if smiles else None
    return molecule if molecule is not None and molecule.GetNumAtoms() else None


def draw_molecule(smiles: str, width: int = 220, height: int = 160) -> str:
    """The structural formula as SVG; empty if the string is invalid."""
    from rdkit.Chem.Draw import rdMolDraw2D

    molecule = parse_molecule(smiles)
    if molecule is None:
        return ""
    drawing: Any = rdMolDraw2D.MolDraw2DSVG(width, height)
    drawing.drawOptions().clearBackground = False
    rdMolDraw2D.PrepareAndDrawMolecule(drawing, molecule)
    drawing.FinishDrawing()
    return str(drawing.GetDrawingText()).partition("?>")[2].strip()  # without the XML declaration
