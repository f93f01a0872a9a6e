"""The JSON records of an experiment."""

from pathlib import Path
from typing import Any

from discrete_meanflow.run.json_files import Json, read_json


def read_part(path: Path) -> Json:
    """Read a record of a run folder."""
    return read_json(path, "delete it to run that part again")


def rounded(value: Any, digits: int = 7) -> Any:
    """Round floats to ``digits`` significant digits at every depth: float32 has no more."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    return value
