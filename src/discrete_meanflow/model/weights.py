"""The weights of a run: the final ones, or those of the newest checkpoint."""

from pathlib import Path

import torch
from safetensors.torch import save as serialise
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.files import write_atomically
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model.run_folder import CHECKPOINTS, WEIGHTS, Config
from discrete_meanflow.model.tensor_files import read_tensors


def write_weights(folder: Path, kernel: Kernel) -> None:
    weights = {name: p.detach().cpu().contiguous() for name, p in kernel.named_parameters()}
    write_atomically(folder / WEIGHTS, serialise(weights))


def read_weights(folder: Path, config: Config, from_checkpoint: bool = False) -> Kernel:
    """Read the trained kernel. The file must contain exactly the parameters of the plan.

    Args:
        folder: the run folder.
        config: its config.
        from_checkpoint: whether the EMA weights of the newest checkpoint will do if training is
            not finished.
    """
    with torch.device("meta"):
        parameters = dict(config.plan.kernel(config.codec).named_parameters())
    if (folder / WEIGHTS).exists():
        path = folder / WEIGHTS
        weights = _read_final(folder, set(parameters))
    else:
        path = _newest_checkpoint(folder, from_checkpoint)
        ema = read_tensors(path, {f"ema/{name}" for name in parameters}, others_allowed=True)
        weights = {name: ema[f"ema/{name}"].squeeze(0) for name in parameters}  # of one seed
    for name, parameter in parameters.items():
        tensor, shape = weights[name], tuple(parameter.shape)
        if tensor.shape != parameter.shape or tensor.dtype != torch.float32:
            actual = f"{tensor.dtype} of shape {tuple(tensor.shape)}"
            raise InputError(f"{path}: {name} is {actual}, not float32 of shape {shape}")
        if not bool(tensor.isfinite().all()):
            raise InputError(f"{path}: {name} contains NaN or Inf{_remedy(folder)}")
    kernel = config.plan.kernel(config.codec)
    kernel.load_state_dict(weights, strict=False)  # buffers are constants
    return kernel.requires_grad_(False)


def _read_final(folder: Path, names: set[str]) -> dict[str, Tensor]:
    try:
        return read_tensors(folder / WEIGHTS, names)
    except InputError as error:
        raise InputError(f"{error}{_remedy(folder)}") from None


def _remedy(folder: Path) -> str:
    """How to get weights again, where checkpoints exist."""
    return f"; delete it and run dmf train --resume {folder}" * bool(_checkpoints(folder))


def _checkpoints(folder: Path) -> list[Path]:
    return [folder / name for name in CHECKPOINTS if (folder / name).exists()]


def _newest_checkpoint(folder: Path, allowed: bool) -> Path:
    checkpoints = _checkpoints(folder)
    if not allowed:
        sample = f", or dmf sample {folder} --from-checkpoint" * bool(checkpoints)
        raise InputError(
            f"training of {folder} is not finished; use dmf train --resume {folder}{sample}"
        )
    if not checkpoints:
        raise InputError(f"{folder} has no checkpoint yet; training writes one every 20 seconds")
    return checkpoints[-1]
