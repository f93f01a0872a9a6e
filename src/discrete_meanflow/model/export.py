"""The generator as one ONNX graph: noise and observed tokens in, probabilities out."""

import contextlib
import copy
import json
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.files import output_path
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.method import names_of_methods
from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.simplex import delta
from discrete_meanflow.state import Continuous
from discrete_meanflow.types import Probs, State

NEEDED = "export needs onnx, onnxscript and onnxruntime: pip install 'discrete-meanflow[onnx]'"
LARGEST = 300_000_000  # parameters; more need a second file
CLOSE = 1e-4  # largest difference between the graph and PyTorch


class Step(nn.Module):
    """``(noise, tokens, observed) -> X_{0,1}``: one forward pass; observed positions stay."""

    def __init__(self, kernel: Kernel, vocabulary: int) -> None:
        super().__init__()
        self.kernel, self.vocabulary = kernel, vocabulary

    def forward(self, noise: Tensor, tokens: State, observed: Tensor) -> Probs:
        """``(n, D, V), (n, D), (n, D) -> (n, D, V)``."""
        known = delta(tokens, self.vocabulary, noise.dtype)
        space = self.kernel.space
        noise = space.noise(noise) if isinstance(space, Continuous) else noise
        x = torch.where(observed[..., None], known, noise)
        r = observed.to(noise.dtype)
        return self.kernel.probs(x, r, torch.ones_like(r))


def export(kernel: Kernel, config: Config, path: Path) -> float:
    """Write the graph, run it, and return its largest difference from PyTorch."""
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError:
        raise InputError(NEEDED) from None
    codec = config.codec
    if not config.plan.system.one_step:
        raise InputError(
            f"export: method {config.plan.method} has no step from noise to records, which a graph "
            f"contains; train {names_of_methods(lambda method: method.one_step)}"
        )
    if config.plan.parameter_count(codec) > LARGEST:
        raise InputError(f"export: at most {LARGEST:,} parameters fit into one file")
    # A copy: the kernel of the caller keeps its device and type.
    step = Step(copy.deepcopy(kernel.for_step(0, 1)).cpu().float(), codec.vocabulary).eval()
    example = _example(codec.vocabulary, codec.length, 2)
    batch = torch.export.Dim("batch")
    log = logging.getLogger("torch.onnx")
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        # The exporter warns about itself.
        warnings.simplefilter("ignore")
        stack.callback(log.setLevel, log.level)
        log.setLevel(logging.ERROR)
        program = torch.onnx.export(
            step,
            example,
            input_names=["noise", "tokens", "observed"],
            output_names=["probabilities"],
            dynamic_shapes=({0: batch}, {0: batch}, {0: batch}),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    description = {"kind": config.kind.name, **codec.describe()}
    program.model.metadata_props["codec"] = json.dumps(description, ensure_ascii=False)
    with output_path(path) as partial:
        program.save(str(partial))
        session = onnxruntime.InferenceSession(str(partial), providers=["CPUExecutionProvider"])
        difference = _difference(session, step, _example(codec.vocabulary, codec.length, 5))
        if not difference < CLOSE:
            raise InputError(
                f"the graph differs from PyTorch by {difference:.2g}; {path} is not written"
            )
    return difference


@torch.no_grad()
def _difference(session: Any, step: Step, inputs: tuple[Tensor, Tensor, Tensor]) -> float:
    names = [node.name for node in session.get_inputs()]
    feed = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
    probabilities = torch.from_numpy(session.run(None, feed)[0])
    return (probabilities - step(*inputs)).abs().max().item()


def _example(vocabulary: int, length: int, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs with the first position observed in every second record."""
    g = torch.Generator().manual_seed(0)
    noise = torch.randn(n, length, vocabulary, generator=g)
    tokens = torch.randint(vocabulary, (n, length), generator=g)
    observed = (torch.arange(length) == 0) & (torch.arange(n) % 2 == 0)[:, None]
    return noise, tokens, observed
