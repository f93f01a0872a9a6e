"""Training batches: a process combined with its initial law, with data, or with a teacher."""

from discrete_meanflow.path.base import Paths
from discrete_meanflow.path.chain import ChainPaths
from discrete_meanflow.path.data import DataPaths
from discrete_meanflow.path.mixed import MixedPaths
from discrete_meanflow.path.teacher_pairs import TeacherPairs

__all__ = ["ChainPaths", "DataPaths", "MixedPaths", "Paths", "TeacherPairs"]
