import torch

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel.flow_map import FlowMapKernel
from discrete_meanflow.types import Logits, Point, Times

RESTART = 5 / 3  # of the clock, over k; chosen on names and mushroom


class MatchedFlowMap(FlowMapKernel):
    """A flow map whose one step (0, 1) has a network of its own.

    Distribution matching trains the map (0, 1) on the law of its samples, after which it no longer
    composes with the others: with one network, samples of several steps become worse. Here all
    other steps keep the network of the flow map. Samples of several steps start with the one step,
    whose sample is noised again and corrected by the flow map: a restart (Xu et al. 2023,
    arXiv:2306.14878). Noised samples of the right law have the right law.

    Args:
        flow_map: the kernel of all steps but one.
        one_step: the kernel of the step (0, 1).
    """

    def __init__(self, flow_map: FlowMapKernel, one_step: FlowMapKernel) -> None:
        if flow_map.space != one_step.space:
            raise InputError(
                f"matched flow map: the flow map has {flow_map.space}, the one step "
                f"{one_step.space}"
            )
        super().__init__(
            flow_map.network, flow_map.states, flow_map.schedule, flow_map.space.ordered
        )
        self.one_step = one_step

    def forward(self, x: Point, r: Times, t: Times) -> Logits:
        """Both networks, and for each sequence the answer of its own.

        ``for_step`` gives the kernel that evaluates one network.
        """
        full = (t == 1) & ((r == 0) | (r == 1))  # observed positions have r = t = 1
        whole = full.all(-1)[..., None, None]
        return torch.where(whole, self.one_step(x, r, t), super().forward(x, r, t))

    def grid(self, k: int) -> list[float]:
        """The one step, then noise again and k - 1 steps of the flow map from ``tau = 5 / (3 k)``.

        The more steps, the more of the matched sample is generated again.
        """
        if k == 1:
            return [0.0, 1.0]
        clock = torch.tensor(RESTART / k, dtype=torch.float64)
        restart = DecodingClock(self.states).inverse(clock).item()
        return [0.0, 1.0, *self.times_between(restart, k - 1)]

    def for_step(self, r: float, t: float) -> FlowMapKernel:
        if (r, t) == (0, 1):
            return self.one_step
        return self.with_network(self.network)
