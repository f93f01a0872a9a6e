"""Which device is meant."""

import torch

from discrete_meanflow.errors import InputError


def choose_device(device: str) -> str:
    """``auto`` is CUDA where there is one. Whether the device is there is seen when it is used."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device not in ("cpu", "cuda"):
        raise InputError(f"device: auto, cpu or cuda, got '{device}'")
    return device


def find_device(device: str) -> str:
    """The same, where it has to be there."""
    chosen = choose_device(device)
    if chosen == "cuda" and not torch.cuda.is_available():
        raise InputError("device: no CUDA device here; use cpu")
    return chosen
