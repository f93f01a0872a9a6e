"""The run folder: all of a run in JSON and safetensors, so that it can be moved and read back.

- ``config.json``: kind of data, codec, plan
- ``data.json``: what was understood of the data
- ``environment.json``: versions and machine
- ``train.safetensors``, ``held_out.safetensors``: tokens
- ``metrics.jsonl``: a line per block of training; ``tensorboard/`` has the same
- ``checkpoint-1.safetensors``, ``checkpoint-2.safetensors``: all state of each stage's loop
- ``weights.safetensors``: the trained kernel
- ``samples.safetensors``, ``evaluation.json``, ``evaluation.png``: what was judged, and how
"""

import datetime
import json
import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialise
from safetensors.torch import save_file
from torch import Tensor

import discrete_meanflow
from discrete_meanflow.data.codec import Codec
from discrete_meanflow.data.kind import KINDS, Kind
from discrete_meanflow.data.labelled_codec import LabelledCodec
from discrete_meanflow.data.tokens import CHUNK_ROWS, TOKEN_DTYPES, token_dtype
from discrete_meanflow.errors import InputError, error_context
from discrete_meanflow.files import (
    make_folder,
    read_regular_file,
    replace_atomically,
    write_atomically,
)
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model.plan import Plan
from discrete_meanflow.types import State

Json = dict[str, Any]
FORMAT = "discrete-meanflow run 1"
TRAIN, HELD_OUT = "train", "held_out"
TRAIN_FILE, HELD_OUT_FILE = f"{TRAIN}.safetensors", f"{HELD_OUT}.safetensors"
BOARD = "tensorboard"
WEIGHTS = "weights.safetensors"
CHECKPOINTS = ("checkpoint-1.safetensors", "checkpoint-2.safetensors")
OWN = (".json", ".jsonl", ".safetensors", ".png")


@dataclass(frozen=True)
class Config:
    """What a run is: with its tokens, all that training needs."""

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
    def from_json(cls, words: Json) -> "Config":
        if words.get("format") != FORMAT or str(words.get("kind")) not in KINDS:
            raise InputError("config.json is not of a run of this version: 'format' or 'kind'")
        kind = KINDS[str(words["kind"])]()
        try:
            plan, said = Plan.from_json(words["plan"]), words["codec"]
            codec: Codec = (
                LabelledCodec.from_json(said, kind.codec)
                if "classes" in said
                else kind.codec.from_json(said)
            )
            plan.check_size(codec)
            return cls(kind, codec, plan)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"config.json is damaged: {error}") from None


def check_room(folder: Path) -> None:
    """Refuse a folder that holds a run already, or something else, or cannot be made."""
    if (folder / "config.json").exists():
        more = f"dmf train --resume {folder}, or another --out"
        raise InputError(f"{folder} holds a run already; {more}")
    there = folder.is_dir()
    held = make_folder(folder)
    if not there:  # it can be made; that is all
        folder.rmdir()
    # A run that was cut off while it was written has its training records, and no more than these.
    own = {TRAIN_FILE, HELD_OUT_FILE, "data.json", "environment.json"}
    others = {name for name in held if not name.startswith(".")}
    if others and not (others <= own and _is_ours(folder / TRAIN_FILE)):
        other = min(others - own or others)
        raise InputError(f"{folder} holds other files, {other} for one; choose another --out")


def _is_ours(path: Path) -> bool:
    """Whether tokens were written by ``create``: someone else's file may have that name."""
    if not path.is_file():  # a pipe would be waited for
        return False
    try:
        with safe_open(path, framework="pt") as file:
            return (file.metadata() or {}).get("format") == FORMAT
    except (SafetensorError, OSError):
        return False


def create(folder: Path, config: Config, card: Json, train: State, held_out: State) -> None:
    """Write a new run; a folder that holds one already is refused."""
    check_room(folder)
    make_folder(folder)
    for name, tokens in ((TRAIN_FILE, train), (HELD_OUT_FILE, held_out)):
        words = {"format": FORMAT}
        write_tokens(folder / name, {"tokens": tokens}, config.codec.vocabulary, words)
    write_json(folder / "data.json", card)
    write_json(folder / "environment.json", environment())
    write_json(folder / "config.json", config.describe())  # last: with it, the run is whole


def copy(folder: Path, to: Path) -> None:
    """The files of a run, and no others; a link, which could lead anywhere, is refused."""
    own = [path for path in folder.iterdir() if path.suffix in OWN]
    for path in own:
        if path.is_symlink() or not path.is_file():
            raise InputError(f"{path} is no file of its own: put the file in its place")
    if make_folder(to):
        raise InputError(f"{to} is there already; choose another name")
    try:
        for path in own:
            shutil.copy2(path, to / path.name)
        if (folder / BOARD).is_dir() and not (folder / BOARD).is_symlink():
            shutil.copytree(folder / BOARD, to / BOARD, symlinks=True)
    except OSError as error:  # shutil's own, too
        shutil.rmtree(to, ignore_errors=True)
        raise InputError(f"cannot copy the run to {to}: {error}") from None


def read_config(folder: Path) -> Config:
    words = read_json(folder / "config.json")
    with error_context(folder):
        return Config.from_json(words)


def is_trained(folder: Path) -> bool:
    """Whether a run, which must be one, has come to its end."""
    read_config(folder)
    return (folder / WEIGHTS).exists()


def read_json(path: Path) -> Json:
    if not path.is_file():
        raise InputError(f"{path.parent} is no run folder: it has no {path.name}")
    content = read_regular_file(path)
    try:
        found = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} is not a record of this program")
    return found


def write_json(path: Path, content: Json) -> None:
    write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n")


def write_tokens(
    path: Path, tokens: dict[str, State], vocabulary: int, words: dict[str, str] | None = None
) -> None:
    small = token_dtype(vocabulary)
    # Not as bytes in memory: tokens may be many, and save_file reads as it writes.
    try:
        with replace_atomically(path) as partial:
            kept = {name: each.to(small).contiguous() for name, each in tokens.items()}
            partial.touch()
            mode = partial.stat().st_mode  # of files here; save_file would let nobody else read
            save_file(kept, partial, words)
            partial.chmod(mode)
    except SafetensorError as error:
        raise InputError(f"cannot write {path}: {error}") from None


def read_tokens(folder: Path, name: str, codec: Codec) -> State:
    """Tokens of a run, checked against its codec. The file is mapped, not read."""
    path = folder / f"{name}.safetensors"
    tokens = read_tensors(path, {"tokens"})["tokens"]
    check_tokens(path, tokens, codec)
    return tokens


def check_tokens(path: Path, tokens: Tensor, codec: Codec) -> None:
    if tokens.dim() != 2 or tokens.shape[1] != codec.length or tokens.dtype not in TOKEN_DTYPES:
        raise InputError(
            f"{path}: {tokens.dtype} of shape {tuple(tokens.shape)} are no tokens of this codec"
        )
    if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < codec.vocabulary:
        raise InputError(f"{path}: tokens outside 0 .. {codec.vocabulary - 1}")
    if codec.allowed is None:
        return
    allowed, places = codec.allowed, torch.arange(codec.length)
    if not all(bool(allowed[places, some.long()].all()) for some in tokens.split(CHUNK_ROWS)):
        raise InputError(f"{path}: tokens that their columns do not have")


def write_weights(folder: Path, kernel: Kernel) -> None:
    weights = {name: p.detach().cpu().contiguous() for name, p in kernel.named_parameters()}
    write_atomically(folder / WEIGHTS, serialise(weights))


def read_weights(folder: Path, config: Config, so_far: bool = False) -> Kernel:
    """The trained kernel; its file must hold exactly the parameters that the plan has.

    Where training has not ended, what the newest checkpoint has of it, if that will do.
    """
    with torch.device("meta"):
        shapes = {n: p.shape for n, p in config.plan.kernel(config.codec).named_parameters()}
    path = folder / WEIGHTS
    if path.exists():
        try:
            found = read_tensors(path, set(shapes))
        except InputError as error:
            anew = f"; delete it, and dmf train --resume {folder} makes it anew"
            raise InputError(f"{error}{anew if any(_begun(folder)) else ''}") from None
    else:
        path = _newest_checkpoint(folder, so_far)
        kept = read_tensors(path, {f"ema/{name}" for name in shapes}, among=True)
        found = {name: kept[f"ema/{name}"].squeeze(0) for name in shapes}  # of one seed
    for name, shape in shapes.items():
        weights = found[name]
        if weights.shape != shape or weights.dtype != torch.float32:
            what = f"{weights.dtype} of shape {tuple(weights.shape)}"
            raise InputError(f"{path}: {name} is {what}, not float32 of shape {tuple(shape)}")
        if not bool(weights.isfinite().all()):
            raise InputError(f"{path}: {name} holds what is no number")
    kernel = config.plan.kernel(config.codec)
    kernel.load_state_dict(found, strict=False)  # buffers are made anew
    return kernel.requires_grad_(False)


def _begun(folder: Path) -> list[Path]:
    """The checkpoints of a run."""
    return [folder / name for name in CHECKPOINTS if (folder / name).exists()]


def _newest_checkpoint(folder: Path, wanted: bool) -> Path:
    """That of a run which is not trained to the end; refused where it is not wanted."""
    begun = _begun(folder)
    if not wanted:
        enough = f"; or as it is, dmf sample {folder} --so-far" * bool(begun)
        raise InputError(f"{folder} is not trained to the end: dmf train --resume {folder}{enough}")
    if not begun:
        raise InputError(f"{folder} has no checkpoint yet; training writes them as it goes")
    return begun[-1]


def read_tensors(path: Path, names: set[str], among: bool = False) -> dict[str, Tensor]:
    """The tensors with these names of a safetensors file, which may be some ``among`` others."""
    if not path.is_file():  # a pipe would be waited for
        raise InputError(f"cannot read {path}: there is no such file")
    try:
        with safe_open(path, framework="pt") as file:
            held = set(file.keys())
            if odd := names - held if among else names ^ held:
                raise InputError(
                    f"{path}: has not the tensors that it should; {min(odd)!r} for one"
                )
            return {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise InputError(f"cannot read {path}: {error}") from None


def environment() -> Json:
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "discrete-meanflow": discrete_meanflow.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
