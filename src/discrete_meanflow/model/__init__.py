"""From records to a generator that needs one forward pass.

``OneStepModel`` is loaded on first use, so that importing :mod:`.options` needs no PyTorch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discrete_meanflow.model.one_step_model import OneStepModel

__all__ = ["OneStepModel"]


def __getattr__(name: str) -> Any:
    if name != "OneStepModel":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from discrete_meanflow.model.one_step_model import OneStepModel

    return OneStepModel
