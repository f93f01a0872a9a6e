"""Tokens and weights as safetensors files, checked when they are read."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from discrete_meanflow.data.tokens import CHUNK_ROWS, TOKEN_DTYPES, token_dtype
from discrete_meanflow.errors import InputError
from discrete_meanflow.files import check_regular_file, replace_atomically
from discrete_meanflow.io.codec import Codec
from discrete_meanflow.types import State


def write_tokens(
    path: Path,
    tokens: Mapping[str, State],
    vocabulary: int,
    metadata: dict[str, str] | None = None,
) -> None:
    """Write tokens as the smallest integers that fit the vocabulary."""
    small = token_dtype(vocabulary)
    # Not as bytes in memory: there may be many tokens, and save_file reads as it writes.
    try:
        with replace_atomically(path) as partial:
            tensors = {name: rows.to(small).contiguous() for name, rows in tokens.items()}
            partial.touch()
            mode = partial.stat().st_mode  # save_file would make it unreadable for others
            save_file(tensors, partial, metadata)
            partial.chmod(mode)
    except SafetensorError as error:
        raise InputError(f"cannot write {path}: {error}") from None


def read_tokens(path: Path, codec: Codec) -> State:
    """Read the tokens of a run, checked against its codec. The file is mapped into memory."""
    tokens = read_tensors(path, {"tokens"})["tokens"]
    check_tokens(path, tokens, codec)
    return tokens


def check_tokens(path: Path, tokens: Tensor, codec: Codec) -> None:
    """Raise unless all tokens are valid for the codec."""
    if tokens.dim() != 2 or tokens.shape[1] != codec.length or tokens.dtype not in TOKEN_DTYPES:
        raise InputError(
            f"{path}: {tokens.dtype} of shape {tuple(tokens.shape)} does not fit the codec of "
            "this run"
        )
    if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < codec.vocabulary:
        raise InputError(f"{path}: tokens outside 0 .. {codec.vocabulary - 1}")
    if codec.allowed is None:
        return
    allowed, positions = codec.allowed, torch.arange(codec.length)
    if not all(bool(allowed[positions, rows.long()].all()) for rows in tokens.split(CHUNK_ROWS)):
        raise InputError(f"{path}: tokens that do not occur in their column")


def read_tensors(path: Path, names: set[str], others_allowed: bool = False) -> dict[str, Tensor]:
    """Read tensors by name from a file that has exactly these, or also others if allowed."""
    with _open(path) as file:
        present = set(file.keys())
        if wrong := names - present if others_allowed else names ^ present:
            raise InputError(f"{path}: unexpected tensor names, for example {min(wrong)!r}")
        return {name: file.get_tensor(name) for name in names}


def read_metadata(path: Path) -> dict[str, str]:
    """Read the metadata of a safetensors file."""
    with _open(path) as file:
        return file.metadata() or {}


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    check_regular_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
