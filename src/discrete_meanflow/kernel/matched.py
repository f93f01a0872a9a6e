from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel.flow_map import FlowMapKernel


class MatchedFlowMap(FlowMapKernel):
    """A flow map whose maps to time 1 have a network of their own.

    Distribution matching trains maps (r, 1) on the laws of their samples, after which they no
    longer compose: with one network, samples of many steps become worse. Here all steps that end
    before 1 keep the network of the flow map.

    Args:
        flow_map: the kernel of steps that end before 1.
        last: the kernel of steps that end at 1, such as the one step (0, 1).
    """

    def __init__(self, flow_map: FlowMapKernel, last: FlowMapKernel) -> None:
        if flow_map.space != last.space:
            raise InputError(
                f"matched flow map: the flow map has {flow_map.space}, the last step {last.space}"
            )
        super().__init__(flow_map.network, flow_map.states, flow_map.schedule)
        self.last = last

    def ending_at(self, t: float) -> FlowMapKernel:
        return self.last if t == 1 else self
