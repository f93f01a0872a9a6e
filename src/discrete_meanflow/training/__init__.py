"""One straight loop: draw a block of paths, step through it, yield a record."""

from discrete_meanflow.training.chain_problem import chain_problem
from discrete_meanflow.training.distillation import FlowMapDistillation
from discrete_meanflow.training.distributed import Distributed
from discrete_meanflow.training.problem import Problem, Recipe
from discrete_meanflow.training.resumable import train_resumable
from discrete_meanflow.training.sequence_problem import flow_map_objective, sequence_problem
from discrete_meanflow.training.trainer import BlockRecord, NotFiniteError, Trainer, train

__all__ = [
    "BlockRecord",
    "Distributed",
    "FlowMapDistillation",
    "NotFiniteError",
    "Problem",
    "Recipe",
    "Trainer",
    "chain_problem",
    "flow_map_objective",
    "sequence_problem",
    "train",
    "train_resumable",
]
