"""One straight loop: draw a block of paths, step through it, yield a record."""

from discrete_meanflow.training.problem import Problem, Recipe
from discrete_meanflow.training.trainer import BlockRecord, Trainer, train

__all__ = ["BlockRecord", "Problem", "Recipe", "Trainer", "train"]
