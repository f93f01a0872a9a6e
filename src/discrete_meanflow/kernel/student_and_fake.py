import copy
import math

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel.flow_map import FlowMapKernel

FAKE = "fake."  # prefix of the parameters of the fake network


class StudentAndFake(FlowMapKernel):
    """A flow map in distribution matching, with its fake network.

    The kernel itself is the student. The diagonal of the fake network follows the student: it
    estimates ``E[e_y | x_s]`` for the student's current samples y. Both are trained in one step,
    the fake network with a larger learning rate, as it must keep up with the student: a two
    time-scale update rule (Heusel et al. 2017, arXiv:1706.08500).

    Args:
        student: the kernel that will generate.
        fake: a kernel of the same type; it starts from the teacher.
        fake_rate: learning rate of the fake network relative to that of the student.
    """

    def __init__(self, student: FlowMapKernel, fake: FlowMapKernel, fake_rate: float = 1.0) -> None:
        if student.space != fake.space:
            raise InputError(
                f"distribution matching: the student has {student.space}, the fake network "
                f"{fake.space}"
            )
        if not 0 < fake_rate < math.inf:
            raise InputError(
                f"distribution matching: fake_rate must be finite and > 0, got {fake_rate:g}"
            )
        super().__init__(student.network, student.states, student.schedule, student.space.ordered)
        self.fake, self.fake_rate = fake, fake_rate

    def student(self) -> FlowMapKernel:
        """A copy of the student alone."""
        return copy.deepcopy(self.with_network(self.network))

    def learning_rate_scale(self, name: str) -> float:
        return self.fake_rate if name.startswith(FAKE) else 1.0

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, fake_rate={self.fake_rate:g}"
