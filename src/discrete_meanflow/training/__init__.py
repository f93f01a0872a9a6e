"""Training: one loop that draws a block of paths, takes its steps and yields a record."""

from discrete_meanflow.training.chain_problem import chain_problem
from discrete_meanflow.training.distillation import FlowMapDistillation
from discrete_meanflow.training.distributed import Distributed
from discrete_meanflow.training.problem import Problem, Recipe
from discrete_meanflow.training.resumable import train_resumable
from discrete_meanflow.training.sequence_problem import flow_map_objective, sequence_problem
from discrete_meanflow.training.trainer import BlockRecord, NotFiniteError, Trainer, train_kernel

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
    "train_kernel",
    "train_resumable",
]
