"""The same tensors through the published implementations and ours give the same numbers.

``foreign_losses.json`` holds inputs, the losses and laws that other repositories' code computes
from them in float64, and the versions of that code. Data are at time 1 here and at time 0 there;
their losses are per unit of the noise level ``1 - r``.
"""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from discrete_meanflow.kernel import (
    BridgeKernel,
    EulerKernel,
    MaskScoreKernel,
    Redraw,
    TargetGuidance,
    UniformScoreKernel,
)
from discrete_meanflow.objective import RateKL, TransitionKL
from discrete_meanflow.process import Masking, PathSample, Uniform, UniformDiffusion
from discrete_meanflow.simplex import delta


def double(values):
    return torch.tensor(values, dtype=torch.float64)


FIXTURE = json.loads(Path(__file__).with_name("foreign_losses.json").read_text())
INPUTS = {name: double(value) for name, value in FIXTURE["inputs"].items()}
X1, MASKED, REDRAWN = (INPUTS[name].long() for name in ("x1", "masked", "redrawn"))
LOGITS = INPUTS["logits"]
R = INPUTS["r"][:, None]
V = 4
MASKING, DIFFUSION = Masking(V), UniformDiffusion(V)


class Given(nn.Module):
    """A network with given logits, of the states or of the data's symbols only."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, x, r, t):
        return self.logits


def diffusion_logits():
    """D3PM's and UDLM's network weights the posterior of x1 by ``1/p_r(x | x1)``; ours is it."""
    seen = DIFFUSION.likelihood(REDRAWN, R.expand(REDRAWN.shape))
    return LOGITS[..., :V] + seen.log()


KERNELS = {
    "mdlm": BridgeKernel(Given(LOGITS), MASKING, MASKING.token),
    "d3pm": BridgeKernel(Given(LOGITS), MASKING, MASKING.token),
    "md4": BridgeKernel(Given(LOGITS), MASKING, MASKING.token),
    "sedd": MaskScoreKernel(Given(LOGITS), MASKING),
    "sedd-uniform": UniformScoreKernel(Given(LOGITS[..., :V]), DIFFUSION),
    "udlm": BridgeKernel(Given(diffusion_logits()), DIFFUSION),
}


def cases(key):
    return [name for name, case in FIXTURE["cases"].items() if key in case]


def of(name):
    """The numbers of a case, its kernel, and the states they start from."""
    kernel = KERNELS[name.split(":")[0]]
    x = MASKED if kernel.process is MASKING else REDRAWN
    return FIXTURE["cases"][name], kernel, x


@pytest.mark.parametrize("name", cases("loss"))
def test_losses_are_those_of_the_published_code(name):
    case, kernel, x = of(name)
    steps = case.get("steps")
    t = R + 1 / steps if steps else R
    path = PathSample(x, R, t, x[..., None], torch.empty(*x.shape, 0), X1, t)
    objective = TransitionKL(steps) if steps else RateKL()
    ours, theirs = objective.by_position(kernel, path), double(case["loss"])
    ours = ours if theirs.dim() == 2 else ours.sum(-1)
    assert theirs.abs().max() > 1
    assert torch.allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", cases("step"))
def test_steps_are_those_of_the_published_code(name):
    case, kernel, x = of(name)
    t = double(case["t"])[:, None]
    theirs = double(case["step"]).clamp(min=0)  # a draw never picks the others
    theirs = theirs / theirs.sum(-1, keepdim=True)
    assert torch.allclose(kernel.probs(x, R, t), theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("name", "x"), [("masking", MASKED), ("uniform", REDRAWN)])
def test_rates_of_defog_are_those_of_the_published_code(name, x):
    """R*, stochasticity and target guidance given x1; their code computes in float32."""
    case, process = FIXTURE["cases"][f"defog: {name}"], MASKING if name == "masking" else Uniform(V)
    certain = delta(X1, process.states, torch.float64).log()
    kernel = BridgeKernel(Given(certain), process, process.token)
    design = EulerKernel(kernel, Redraw(case["eta"]), TargetGuidance(case["omega"]))
    theirs, elsewhere = double(case["rates"]), delta(x, process.states, R.dtype) == 0
    ours = design.rates(x, certain, R.expand(x.shape))
    assert torch.allclose(ours[elsewhere], theirs[elsewhere], rtol=1e-5, atol=1e-6)
