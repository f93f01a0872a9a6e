"""Discrete MeanFlow: one-step generation of discrete data with learned transition kernels.

The namespace holds self-explanatory names; more general ones live in the submodules, such as
``dmf.ctmc.ring`` or ``dmf.schedule.Linear``. ``__init__.pyi`` lists the names. They load on first
use, so ``import discrete_meanflow`` does not import torch.
"""

import ast
import importlib
from pathlib import Path
from typing import Any

__version__ = "0.1.0"


def _public_names() -> dict[str, str]:
    """Public names and the modules that define them, from the stub file."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text())
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    return {alias.name: node.module or "" for node in imports for alias in node.names}


_MODULES = _public_names()
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    if _MODULES[name] == __name__:  # a submodule
        return importlib.import_module(f"{__name__}.{name}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
