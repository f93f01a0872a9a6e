"""Start a run from the weights of another."""

from dataclasses import replace
from pathlib import Path

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.codec import Codec
from discrete_meanflow.kernel import FlowMapKernel, Kernel, MatchedFlowMap
from discrete_meanflow.model.plan import Plan
from discrete_meanflow.model.run_folder import read_config, read_weights


def start_from(run: Path, plan: Plan, codec: Codec) -> tuple[Plan, Kernel]:
    """The plan with the network of a trained run, and the kernel that its first stage starts from.

    Of a matched flow map that is the flow map, without the network of its one step.
    """
    source = read_config(run)
    if source.codec.describe() != codec.describe():
        raise InputError(
            f"--init {run}: the file has other columns, levels, symbols or lengths than that run; "
            "train without --init"
        )
    if source.plan.method != plan.method:
        raise InputError(
            f"--init {run}: that run has method {source.plan.method}; use --method "
            f"{source.plan.method}"
        )
    kernel = read_weights(run, source)
    if isinstance(kernel, MatchedFlowMap):
        kernel = FlowMapKernel(kernel.network, kernel.states, kernel.schedule, kernel.space.ordered)
    old = source.plan
    like = replace(
        plan, width=old.width, layers=old.layers, heads=old.heads, muon_ratio=old.muon_ratio
    )
    return like, kernel
