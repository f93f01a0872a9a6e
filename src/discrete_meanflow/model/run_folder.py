"""The run folder: a run in JSON and safetensors, which can be moved and read back.

- ``config.json``: format version, kind of data, codec, plan
- ``data.json``: the data card
- ``environment.json``: versions and machine
- ``pace.json``: the training time and the measured speed, if the run has a time
- ``start.safetensors``: the weights of another run that training starts from, if any
- ``train.safetensors``, ``held_out.safetensors``: tokens
- ``metrics.jsonl``: one line per block of training; ``tensorboard/`` has the same
- ``checkpoint-1.safetensors`` to ``checkpoint-3.safetensors``: states of the training stages
- ``training.json``: numbers of steps, scores of samples at the end of training, teacher pairs
- ``weights.safetensors``: the trained kernel, written last
- ``samples.safetensors``, ``evaluation.json``, ``evaluation.png``: the evaluation
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as serialise
from torch import Tensor

from discrete_meanflow.errors import InputError, error_context
from discrete_meanflow.files import check_regular_file, make_folder, write_atomically
from discrete_meanflow.io.codec import Codec
from discrete_meanflow.io.kind import Kind
from discrete_meanflow.io.kinds import KINDS
from discrete_meanflow.io.labelled_codec import LabelledCodec
from discrete_meanflow.kernel import FlowMapKernel, Kernel, MatchedFlowMap
from discrete_meanflow.model.pace import PACE, Pace
from discrete_meanflow.model.plan import Plan
from discrete_meanflow.model.plan_limits import check_size
from discrete_meanflow.model.tensor_files import read_metadata, read_tensors, write_tokens
from discrete_meanflow.run.environment import environment
from discrete_meanflow.run.json_files import Json, read_json, write_json
from discrete_meanflow.types import State

FORMAT = 6
CONFIG, CARD, ENVIRONMENT = "config.json", "data.json", "environment.json"
TRAIN, HELD_OUT = "train.safetensors", "held_out.safetensors"
CHECKPOINTS = tuple(f"checkpoint-{stage}.safetensors" for stage in (1, 2, 3))
START = "start.safetensors"
TRAINING = "training.json"
WEIGHTS = "weights.safetensors"
METRICS, TENSORBOARD = "metrics.jsonl", "tensorboard"
WEIGHT_DTYPES = (torch.float32, torch.float16)  # pretrained models are stored in the second
SUFFIXES = (".json", ".jsonl", ".safetensors", ".png")
TOKENS_METADATA = {"format": f"discrete-meanflow tokens {FORMAT}"}


@dataclass(frozen=True)
class Config:
    """With its tokens, all that training needs."""

    kind: Kind
    codec: Codec
    plan: Plan

    def describe(self) -> Json:
        return {
            "format": FORMAT,
            "kind": self.kind.name,
            "codec": self.codec.describe(),
            "plan": self.plan.describe(),
        }

    @classmethod
    def from_json(cls, content: Json) -> "Config":
        """Rebuild a config that :meth:`describe` has written."""
        try:
            kind = KINDS[str(content["kind"])]()
            plan, description = Plan.from_json(content["plan"]), content["codec"]
            codec: Codec = (
                LabelledCodec.from_json(description, kind.codec)
                if "classes" in description
                else kind.codec.from_json(description)
            )
            check_size(plan, codec)
            return cls(kind, codec, plan)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{CONFIG} is damaged: {error}") from None


def check_new_folder(folder: Path) -> None:
    """Raise unless a new run can be written to the folder."""
    _check_no_run(folder)
    missing = [path for path in (folder, *folder.parents) if not path.is_dir()]
    entries = {name for name in make_folder(folder) if not name.startswith(".")}
    for path in missing:  # created only to test that it can be
        path.rmdir()
    # A run that was killed while it was created has these files and no others.
    own = {TRAIN, HELD_OUT, CARD, ENVIRONMENT, PACE, START}
    if entries and not (entries <= own and _is_ours(folder / TRAIN)):
        other = min(entries - own or entries)
        raise InputError(f"{folder} contains other files, such as {other}; choose another --out")


def _check_no_run(folder: Path) -> None:
    if (folder / CONFIG).exists():
        resume = "" if (folder / WEIGHTS).exists() else f"use dmf train --resume {folder}, or "
        raise InputError(f"{folder} already contains a run; {resume}choose another --out")


def _is_ours(path: Path) -> bool:
    """Whether :func:`create` wrote this file; a foreign file may have the same name."""
    try:
        return read_metadata(path) == TOKENS_METADATA
    except InputError:
        return False


def create(
    folder: Path,
    config: Config,
    card: Json,
    train: State,
    held_out: State,
    pace: Pace | None = None,
    start: Kernel | None = None,
) -> None:
    """Write a new run. The config comes last: a folder that has one is complete."""
    make_folder(folder)
    _check_no_run(folder)  # another process may have created one meanwhile
    for name, tokens in ((TRAIN, train), (HELD_OUT, held_out)):
        write_tokens(folder / name, {"tokens": tokens}, config.codec.vocabulary, TOKENS_METADATA)
    write_json(folder / CARD, card)
    write_json(folder / ENVIRONMENT, environment())
    if pace is not None:
        pace.write(folder)
    if start is not None:
        _write_kernel(folder / START, start)
    write_config(folder, config)


def write_config(folder: Path, config: Config) -> None:
    write_json(folder / CONFIG, config.describe())


def read_config(folder: Path) -> Config:
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder} is not a run folder: it has no {CONFIG}")
    content = read_json(folder / CONFIG)
    if (version := _version(content)) != FORMAT:
        raise InputError(
            f"{folder} was written by another version (format {version}, this is {FORMAT}); "
            "train again, with another --out"
        )
    with error_context(folder):
        return Config.from_json(content)


def _version(content: Json) -> Any:
    """The format version; format 1 was a phrase that ended in its number."""
    version = content.get("format")
    if isinstance(version, str):
        return version.rpartition(" ")[2][:20] or "unknown"
    return version if isinstance(version, int) else "unknown"


def is_trained(folder: Path) -> bool:
    return (folder / WEIGHTS).exists()


def copy(folder: Path, target: Path) -> None:
    """Copy the files of a run and no others. Links are rejected: they could lead anywhere."""
    files = [path for path in folder.iterdir() if path.suffix in SUFFIXES]
    for path in files:
        if path.is_symlink() or not path.is_file():
            raise InputError(f"{path} is a link or not a regular file; replace it with the file")
    if make_folder(target):
        raise InputError(f"{target} already exists; choose another name")
    try:
        for path in files:
            shutil.copy2(path, target / path.name)
        board = folder / TENSORBOARD
        if board.is_dir() and not board.is_symlink():
            shutil.copytree(board, target / TENSORBOARD, symlinks=True)
    except BaseException as error:  # also Ctrl-C, which must not leave half a run
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OSError):  # also shutil.Error
            raise InputError(f"cannot copy the run to {target}: {error}") from None
        raise


def write_weights(folder: Path, kernel: Kernel) -> None:
    _write_kernel(folder / WEIGHTS, kernel)


def _write_kernel(path: Path, kernel: Kernel) -> None:
    weights = {name: p.detach().cpu().contiguous() for name, p in kernel.named_parameters()}
    write_atomically(path, serialise(weights))


def read_start(folder: Path, config: Config) -> Kernel | None:
    """The kernel that the first stage starts from; None if it starts from random weights."""
    if not (folder / START).exists():
        return None
    plan, codec = config.plan, config.codec
    return _with_weights(plan.kernel_of(codec, plan.process(codec)), folder / START)


def read_weights(folder: Path, config: Config, from_checkpoint: bool = False) -> Kernel:
    """Read the trained kernel. The file must contain exactly the parameters of the plan.

    Args:
        folder: the run folder.
        config: its config.
        from_checkpoint: use the EMA weights of the newest checkpoint if training is not finished.
    """
    checkpoints = [folder / name for name in CHECKPOINTS if (folder / name).exists()]
    try:
        if is_trained(folder):
            _check_file_size(folder / WEIGHTS, config)
            kernel = _with_weights(config.plan.kernel(config.codec), folder / WEIGHTS)
        else:
            newest = _newest(folder, checkpoints, from_checkpoint)
            _check_file_size(newest, config)
            kernel = _from_checkpoint(config, newest)
            if newest.name == CHECKPOINTS[2]:  # it trains the step (0, 1) of the second stage's map
                flow_map = _from_checkpoint(config, folder / CHECKPOINTS[1])
                assert isinstance(flow_map, FlowMapKernel)
                assert isinstance(kernel, FlowMapKernel)
                kernel = MatchedFlowMap(flow_map, kernel)
    except _WeightsError as error:
        remedy = f"; delete it and run dmf train --resume {folder}" * bool(checkpoints)
        raise InputError(f"{error}{remedy}") from None
    return kernel.requires_grad_(False)


class _WeightsError(InputError):
    """Weights that are missing, damaged or of another network."""


def _check_file_size(path: Path, config: Config) -> None:
    """Raise if a file is too small for a network of the plan, before memory is allocated for it."""
    check_regular_file(path)
    smallest = min(dtype.itemsize for dtype in WEIGHT_DTYPES)
    needed = smallest * config.plan.parameter_count(config.codec)
    if path.stat().st_size < needed:
        raise _WeightsError(
            f"{path} has {path.stat().st_size:,} bytes, too few for the network of {CONFIG}, "
            f"which needs {needed:,}"
        )


def _from_checkpoint(config: Config, path: Path) -> Kernel:
    """What a stage trains, with the EMA weights of its checkpoint."""
    plan, codec = config.plan, config.codec
    return _with_weights(plan.kernel_of(codec, plan.process(codec)), path, "ema/")


def _with_weights(kernel: Kernel, path: Path, prefix: str = "") -> Kernel:
    """The kernel with the weights in a file, whose names have a prefix in a checkpoint."""
    parameters = dict(kernel.named_parameters())
    names = {f"{prefix}{name}" for name in parameters}
    try:
        tensors = read_tensors(path, names, others_allowed=bool(prefix))
        weights = {name: tensors[f"{prefix}{name}"] for name in parameters}
        if prefix:  # a checkpoint has an axis of seeds
            weights = {name: tensor.squeeze(0) for name, tensor in weights.items()}
        for name, parameter in parameters.items():
            _check_weight(f"{path}: {name}", weights[name], tuple(parameter.shape))
    except InputError as error:
        raise _WeightsError(str(error)) from None
    kernel.load_state_dict(weights, strict=False)  # buffers are constants
    return kernel


def _check_weight(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tensor.shape != shape or tensor.dtype not in WEIGHT_DTYPES:
        actual = f"{tensor.dtype} of shape {tuple(tensor.shape)}"
        raise InputError(f"{name} is {actual}, not float32 of shape {shape}")
    if not bool(tensor.isfinite().all()):
        raise InputError(f"{name} contains NaN or Inf")


def _newest(folder: Path, checkpoints: list[Path], allowed: bool) -> Path:
    if not allowed:
        sample = f", or dmf sample {folder} --from-checkpoint" * bool(checkpoints)
        raise InputError(
            f"training of {folder} is not finished; use dmf train --resume {folder}{sample}"
        )
    if not checkpoints:
        raise InputError(f"{folder} has no checkpoint yet; training writes one every 20 seconds")
    return checkpoints[-1]
