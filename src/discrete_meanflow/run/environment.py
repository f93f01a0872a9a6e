"""The record of where and when a result was made."""

import datetime
import os
import platform

import numpy
import torch

import discrete_meanflow
from discrete_meanflow.run.json_files import Json


def today() -> str:
    """The date in UTC: ``2026-01-31``."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")


def versions() -> dict[str, str]:
    """Versions of the packages that numbers depend on."""
    return {
        "discrete-meanflow": discrete_meanflow.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
    }


def device_name(device: str) -> str:
    """The name of the GPU, or the number of cores of the CPU."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name()
    return f"CPU, {os.cpu_count()} cores ({platform.machine()})"


def environment() -> Json:
    """Date, versions, machine and GPU."""
    return {
        "date": today(),
        **versions(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
