"""Training: one loop that draws a block of paths, takes its steps and yields a record."""

from discrete_meanflow.training.chain_problem import chain_problem as chain_problem
from discrete_meanflow.training.distillation import FlowMapDistillation as FlowMapDistillation
from discrete_meanflow.training.distributed import Distributed as Distributed
from discrete_meanflow.training.matching import MatchingDistillation as MatchingDistillation
from discrete_meanflow.training.pair_report import (
    NoiseMoments as NoiseMoments,
    PairReport as PairReport,
    describe_pairs as describe_pairs,
)
from discrete_meanflow.training.problem import Problem as Problem, Recipe as Recipe
from discrete_meanflow.training.resumable import train_resumable as train_resumable
from discrete_meanflow.training.sequence_problem import (
    flow_map_objective as flow_map_objective,
    sequence_problem as sequence_problem,
)
from discrete_meanflow.training.trainer import (
    BlockRecord as BlockRecord,
    NotFiniteError as NotFiniteError,
    Trainer as Trainer,
    train_kernel as train_kernel,
)
