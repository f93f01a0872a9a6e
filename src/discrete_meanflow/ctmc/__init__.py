"""Exact mathematics of finite continuous-time Markov chains (CTMCs), in float64."""

from discrete_meanflow.ctmc.chains import (
    BulkQueue,
    birth_death,
    paper_chains,
    ring,
    tilting_birth_death,
    two_state,
)
from discrete_meanflow.ctmc.generator import (
    ConstantGenerator,
    RateGenerator,
    TimeVaryingGenerator,
)
from discrete_meanflow.ctmc.mean_rate import identity_residual, integral_form, mean_rate
from discrete_meanflow.ctmc.simulate import JumpRates, MatrixRates, simulate
from discrete_meanflow.ctmc.transition import matrix_exponential, transition
from discrete_meanflow.ctmc.uniformization import uniformized_action

__all__ = [
    "BulkQueue",
    "ConstantGenerator",
    "JumpRates",
    "MatrixRates",
    "RateGenerator",
    "TimeVaryingGenerator",
    "birth_death",
    "identity_residual",
    "integral_form",
    "matrix_exponential",
    "mean_rate",
    "paper_chains",
    "ring",
    "simulate",
    "tilting_birth_death",
    "transition",
    "two_state",
    "uniformized_action",
]
