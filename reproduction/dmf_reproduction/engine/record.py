"""The JSON that experiments leave behind, and what it says of where it was made."""

import json
import os
import platform
import re
from pathlib import Path
from typing import Any

import numpy
import torch

import discrete_meanflow
from discrete_meanflow.errors import InputError
from discrete_meanflow.files import write_atomically
from dmf_reproduction.engine.experiment import Json


def write_json(path: Path, content: Json) -> None:
    text = json.dumps(content, indent=1, allow_nan=False)
    # A list of numbers on one line: readable, and a third of the size.
    text = re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found[0].split()), text)
    write_atomically(path, text.encode() + b"\n")


def read_json(path: Path) -> Json:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read {path} ({error}); delete it to run that part again"
        ) from None
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a record of this program; delete it")
    return content


def rounded(value: Any, digits: int = 7) -> Any:
    """Floats to ``digits`` significant digits, all the way down: float32 has no more."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    return value


def device_name(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"CPU, {os.cpu_count()} cores ({platform.machine()})"


def versions() -> dict[str, str]:
    return {
        "discrete-meanflow": discrete_meanflow.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
    }
