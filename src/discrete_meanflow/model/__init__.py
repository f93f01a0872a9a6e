"""From records to a generator that answers in one forward pass."""

from discrete_meanflow.model.one_step_model import OneStepModel

__all__ = ["OneStepModel"]
