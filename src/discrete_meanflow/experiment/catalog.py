"""All experiments by name."""

from pathlib import Path

from discrete_meanflow.errors import InputError
from discrete_meanflow.experiment.base import Experiment, Scale
from discrete_meanflow.experiment.boundary_ablation import BoundaryAblation
from discrete_meanflow.experiment.chain_objectives import ChainObjectives
from discrete_meanflow.experiment.demo import Demo
from discrete_meanflow.experiment.estimators import Estimators
from discrete_meanflow.experiment.exact_recovery import ExactRecovery
from discrete_meanflow.experiment.hybrid_sweep import HybridSweep
from discrete_meanflow.experiment.joint import Joint
from discrete_meanflow.experiment.joint_digits import JointDigits
from discrete_meanflow.experiment.joint_molecules import JointMolecules
from discrete_meanflow.experiment.joint_names import JointNames
from discrete_meanflow.experiment.joint_nltcs import JointNltcs
from discrete_meanflow.experiment.joint_rna import JointRna
from discrete_meanflow.experiment.joint_sudoku import JointSudoku
from discrete_meanflow.experiment.mean_rate import MeanRate
from discrete_meanflow.experiment.multi_step import MultiStep
from discrete_meanflow.experiment.objective_comparison import ObjectiveComparison
from discrete_meanflow.experiment.ordered_steps import OrderedSteps
from discrete_meanflow.experiment.simulable import Simulable
from discrete_meanflow.experiment.structured_noise import StructuredNoise
from discrete_meanflow.experiment.target_variance import TargetVariance
from discrete_meanflow.experiment.time_ablations import TimePairAblation, TimeSamplerAblation

EXPERIMENTS: dict[str, type[Experiment]] = {
    experiment.name: experiment
    for experiment in (
        ExactRecovery,
        BoundaryAblation,
        TimePairAblation,
        TimeSamplerAblation,
        ChainObjectives,
        MeanRate,
        Simulable,
        ObjectiveComparison,
        TargetVariance,
        MultiStep,
        HybridSweep,
        Estimators,
        OrderedSteps,
        StructuredNoise,
        Joint,
        JointDigits,
        JointNltcs,
        JointNames,
        JointMolecules,
        JointRna,
        JointSudoku,
    )
}
ALL = "paper"  # stands for every experiment of the paper
PAPER = [name for name, experiment in EXPERIMENTS.items() if experiment.of_the_paper]


def find(name: str, data: Path | None = None) -> Experiment:
    """An experiment, reading its files (if it has any) from the folder ``data``."""
    if name == Demo.name:
        return Demo()
    if name not in EXPERIMENTS:
        raise InputError(f"unknown experiment '{name}'; known: {', '.join([*EXPERIMENTS, ALL])}")
    found = EXPERIMENTS[name]()
    found.data = data
    return found


def expand(names: list[str]) -> list[str]:
    """``paper`` becomes every experiment of it; doubles are dropped; unknown names refused."""
    if not names:
        raise InputError(f"name an experiment: {', '.join([*EXPERIMENTS, ALL])}")
    wanted = [known for name in names for known in (PAPER if name == ALL else [name])]
    for name in wanted:
        find(name)
    return list(dict.fromkeys(wanted))


def holding(names: list[str], text: str, scale: str, data: Path | None) -> list[str]:
    """Of several experiments, those with a cell whose name holds the text; of one, itself."""
    if not text or len(names) == 1:
        return names
    found = [n for n in names if any(text in c.name for c in find(n, data).cells(Scale(scale)))]
    if not found:
        raise InputError(f"--only: no cell of {', '.join(names)} holds '{text}'")
    return found
