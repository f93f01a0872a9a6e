"""Small trained models that ship with the package. Each is a run folder with a model card.

Their weights are stored in half precision, and their training data are left out.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from discrete_meanflow.errors import InputError

if TYPE_CHECKING:
    from discrete_meanflow.model.one_step_model import OneStepModel

FOLDER = Path(__file__).parent


def pretrained_names() -> tuple[str, ...]:
    """The names of the models."""
    return tuple(sorted(path.parent.name for path in FOLDER.glob("*/config.json")))


def pretrained_folder(name: str) -> Path:
    """The run folder of a model."""
    if name not in pretrained_names():
        known = ", ".join(pretrained_names())
        raise InputError(f"no pretrained model '{name}'; choose one of {known}")
    return FOLDER / name


def load_pretrained(name: str, device: str = "auto") -> "OneStepModel":
    """Load a model that ships with the package.

    Args:
        name: one of ``pretrained_names()``.
        device: auto, cpu or cuda.
    """
    from discrete_meanflow.model.one_step_model import OneStepModel

    return OneStepModel.load(pretrained_folder(name), device)
