"""Compiled code on disk. A cache that is kept between runs may be damaged when it is read."""

import functools
import os
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import torch

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"  # PyTorch reads it at every access


def call_compiled(code: Callable[..., Any], *inputs: Any) -> Any:
    """``code(*inputs)``. Code that cannot be loaded or written is compiled in another folder.

    A write that was cut off by a crash leaves a broken library, and PyTorch does not replace it. A
    disk may be full.
    """
    try:
        return code(*inputs)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, OSError) as error:  # PyTorch's are of the first kind
        folder = os.environ.get(VARIABLE)
        if folder is None or folder == new_folder().name:  # not the fault of a folder
            raise
        os.environ[VARIABLE] = new_folder().name
        reason = str(error).strip().partition("\n")[0]
    result = code(*inputs)
    warnings.warn(
        f"compiled code in {folder} cannot be used ({reason}), so this run compiled again; delete "
        "the folder",
        stacklevel=2,
    )
    return result


@functools.cache
def new_folder() -> "tempfile.TemporaryDirectory[str]":
    """An empty folder of this process, which is deleted at its end."""
    return tempfile.TemporaryDirectory(prefix="dmf-compiled-")
