"""From records to a generator that answers in one forward pass."""

from discrete_meanflow.onestep.model import OneStepModel

__all__ = ["OneStepModel"]
