"""Training batches: a process combined with its initial law, with data, or with a teacher."""

from discrete_meanflow.path.base import Paths as Paths
from discrete_meanflow.path.chain import ChainPaths as ChainPaths
from discrete_meanflow.path.data import DataPaths as DataPaths
from discrete_meanflow.path.matching import MatchingPaths as MatchingPaths
from discrete_meanflow.path.mixed import MixedPaths as MixedPaths
from discrete_meanflow.path.teacher_pairs import TeacherPairs as TeacherPairs
