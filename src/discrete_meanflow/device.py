"""The device to compute on."""

import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.printable import shown


def choose_device(device: str) -> str:
    """Resolve ``auto`` to CUDA if available, else to the CPU. Availability is checked on use."""
    if not isinstance(device, str) or device not in ("auto", "cpu", "cuda"):
        raise InputError(f"device must be auto, cpu or cuda, got {shown(device)}")
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def find_device(device: str) -> str:
    """Resolve ``auto`` and check that the device is available."""
    chosen = choose_device(device)
    if chosen == "cuda" and not torch.cuda.is_available():
        raise InputError("device: no CUDA device is available; use cpu")
    return chosen


def has_fast_bf16(device: str | torch.device) -> bool:
    """Whether matrix products are faster in bfloat16: on GPUs, and with AVX512-BF16 or AMX."""
    if torch.device(device).type == "cuda":
        return True
    capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16"))
