"""All experiments by name."""

from pathlib import Path

from discrete_meanflow.errors import InputError
from dmf_reproduction.engine.experiment import Experiment, Scale
from dmf_reproduction.experiments.boundary_ablation import BoundaryAblation
from dmf_reproduction.experiments.chain_objectives import ChainObjectives
from dmf_reproduction.experiments.compare import CompareBigram, CompareNltcs
from dmf_reproduction.experiments.demo import Demo
from dmf_reproduction.experiments.estimators import Estimators
from dmf_reproduction.experiments.exact_recovery import ExactRecovery
from dmf_reproduction.experiments.hybrid_sweep import HybridSweep
from dmf_reproduction.experiments.joint import Joint
from dmf_reproduction.experiments.joint_digits import JointDigits
from dmf_reproduction.experiments.joint_molecules import JointMolecules
from dmf_reproduction.experiments.joint_names import JointNames
from dmf_reproduction.experiments.joint_nltcs import JointNltcs
from dmf_reproduction.experiments.joint_rna import JointRna
from dmf_reproduction.experiments.joint_sudoku import JointSudoku
from dmf_reproduction.experiments.mean_rate import MeanRate
from dmf_reproduction.experiments.multi_step import MultiStep
from dmf_reproduction.experiments.objective_comparison import ObjectiveComparison
from dmf_reproduction.experiments.ordered_steps import OrderedSteps
from dmf_reproduction.experiments.simulable import Simulable
from dmf_reproduction.experiments.structured_noise import StructuredNoise
from dmf_reproduction.experiments.target_variance import TargetVariance
from dmf_reproduction.experiments.time_ablations import TimePairAblation, TimeSamplerAblation

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
        CompareBigram,
        CompareNltcs,
    )
}
ALL = "paper"  # stands for every experiment of the paper
PAPER = [name for name, experiment in EXPERIMENTS.items() if experiment.of_the_paper]


def find(name: str, data: Path | None = None) -> Experiment:
    """An experiment; ``data`` is the folder of its files, if it reads any."""
    if name == Demo.name:
        return Demo()
    if name not in EXPERIMENTS:
        raise InputError(f"unknown experiment '{name}'; known: {', '.join([*EXPERIMENTS, ALL])}")
    experiment = EXPERIMENTS[name]()
    experiment.data = data
    return experiment


def expand(names: list[str]) -> list[str]:
    """Replace ``paper`` by its experiments and remove duplicates; reject unknown names."""
    if not names:
        raise InputError(f"name an experiment: {', '.join([*EXPERIMENTS, ALL])}")
    expanded = [known for name in names for known in (PAPER if name == ALL else [name])]
    for name in expanded:
        find(name)
    return list(dict.fromkeys(expanded))


def with_cell(names: list[str], text: str, scale: str, data: Path | None) -> list[str]:
    """The experiments that have a cell whose name contains ``text``; a single one is kept."""
    if not text or len(names) == 1:
        return names
    matching = [n for n in names if any(text in c.name for c in find(n, data).cells(Scale(scale)))]
    if not matching:
        raise InputError(f"--only: no cell of {', '.join(names)} contains '{text}'")
    return matching
