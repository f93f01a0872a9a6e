"""One step of generation is one forward pass of the network."""

import pytest
import torch

from discrete_meanflow.kernel import FlowMapKernel
from discrete_meanflow.network import DiT
from discrete_meanflow.sampler import KernelSampler

V, D = 5, 4


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_sampling_in_k_steps_takes_k_forward_passes(steps):
    network = DiT(V, D, 16, 1, 2)
    calls = []
    network.register_forward_hook(lambda *args: calls.append(args))
    g = torch.Generator().manual_seed(0)
    start = torch.randn(3, D, V, generator=g)
    samples = KernelSampler.steps(FlowMapKernel(network, V), steps).sample(start, g)
    assert samples.shape == (3, D)
    assert len(calls) == steps
