"""Samples of a run: one row for each noise, one column for each number of forward passes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from discrete_meanflow.report.blocks import (
    Block,
    Command,
    Json,
    Note,
    file_name,
    shortened,
)
from discrete_meanflow.report.pictures import grey_png, png_uri, svg_uri
from discrete_meanflow.report.sample_files import sample_file_blocks

if TYPE_CHECKING:
    from discrete_meanflow.model.run_folder import Config
    from discrete_meanflow.types import State

WEIGHTS, SAMPLES = "weights.safetensors", "samples.safetensors"
SHOWN_STEPS = (1, 4, 16)
SHOWN = 12  # records
SAME_NOISE = "Samples beside each other start from the same noise."
SAME_NOISE_ROWS = (
    "Rows that stand together start from the same noise; cells that differ from the row above are "
    "marked."
)
SEED = 0  # of samples that are drawn for the page


@dataclass(frozen=True)
class Item:
    """A record: its text, its picture if it has one, and its class."""

    text: str
    picture: str = ""
    shape: str = ""  # class of the picture in the style
    label: str = ""
    invalid: bool = False


@dataclass(frozen=True)
class Items(Block):
    """Records that fit into a cell."""

    template: ClassVar[str] = "samples.html"
    head: tuple[str, ...]
    rows: tuple[tuple[Item, ...], ...]


@dataclass(frozen=True)
class RowCell:
    """A cell of a row, and whether it differs from the row above."""

    text: str
    changed: bool = False


@dataclass(frozen=True)
class Rows(Block):
    """Rows of a table; rows of the same noise stand together."""

    template: ClassVar[str] = "rows.html"
    head: tuple[str, ...]
    groups: tuple[tuple[tuple[RowCell, ...], ...], ...]


def sample_blocks(folder: Path, finished: bool) -> Iterator[Block]:
    """The first lines of sample files, the saved samples of the evaluation, or new samples."""
    if files := list(sample_file_blocks(folder)):
        yield from files
    elif any((folder / name).exists() for name in (WEIGHTS, SAMPLES)):
        yield from _run_samples(folder)
    elif finished:
        yield Note("This folder contains neither samples nor weights.")
    else:
        yield Note("There are no samples, because training is not finished.")
        yield Command(f"dmf train --resume {file_name(folder)}", "Finish it with")


def _run_samples(folder: Path) -> Iterator[Block]:
    from discrete_meanflow.model.eval_samples import load_saved
    from discrete_meanflow.model.run_folder import read_config

    config = read_config(folder)
    saved = load_saved(folder, config)
    if saved is None:
        command = f"dmf sample {file_name(folder)} -n {SHOWN} --seed {SEED} --device cpu --steps"
        for k in SHOWN_STEPS:
            yield Command(f"{command} {k}", "Drawn by" * (k == SHOWN_STEPS[0]))
        yield from _layout_blocks(config, _draw(folder, config))
        return
    command = f"dmf evaluate {file_name(folder)} {saved.options.command_line}"
    yield Command(command, "Saved by")
    steps = [k for k in saved.tokens if k in SHOWN_STEPS] or list(saved.tokens)[:3]
    yield from _layout_blocks(config, {k: saved.tokens[k][:SHOWN] for k in steps})


def _draw(folder: Path, config: "Config") -> "dict[int, State]":
    """New samples; the noise depends on the seed only."""
    import torch

    from discrete_meanflow.model.options import SampleOptions
    from discrete_meanflow.model.run_folder import read_weights
    from discrete_meanflow.model.sampling import sample_tokens

    kernel = read_weights(folder, config)
    return {
        k: torch.cat(list(sample_tokens(kernel, config, SampleOptions(SHOWN, k, SEED))))
        for k in SHOWN_STEPS
    }


def _layout_blocks(config: "Config", samples: "dict[int, State]") -> Iterator[Block]:
    """The samples as their layout is shown."""
    from discrete_meanflow.io.layout import Arrangement
    from discrete_meanflow.model.eval_samples import row_name
    from discrete_meanflow.model.views import layout_view, record_views

    layout = layout_view(config)
    views = [record_views(config, tokens) for tokens in samples.values()]
    names = [row_name(k) for k in samples]
    if config.codec.layout.arrangement is Arrangement.ROW:
        yield Note(SAME_NOISE_ROWS)
        yield _rows_block(layout, names, views)
        return
    make: dict[Arrangement, Callable[[Json, Json], Item]] = {
        Arrangement.TEXT: _text_item,
        Arrangement.GRID: _grid_item,
        Arrangement.LIST: _list_item,
    }
    item = make[config.codec.layout.arrangement]
    rows = [tuple(item(layout, view) for view in row) for row in zip(*views, strict=True)]
    yield Note(SAME_NOISE)
    yield Items(tuple(names), tuple(rows))


def _text_item(layout: Json, view: Json) -> Item:
    drawing = svg_uri(view["svg"]) if view.get("svg") else ""
    invalid = not view.get("valid", True)
    return Item(shortened(view["text"]), drawing, "drawing", view.get("class", ""), invalid)


def _grid_item(layout: Json, view: Json) -> Item:
    """Levels of brightness, from black to white."""
    height, width = layout["shape"]
    most = max(1, len(layout["symbols"][0]) - 1)
    levels = bytes(round(255 * token / most) for token in view["tokens"][: height * width])
    picture = png_uri(grey_png(levels, width, height))
    return Item(f"{height} x {width} image", picture, "pixels", view.get("class", ""))


def _list_item(layout: Json, view: Json) -> Item:
    symbols = layout["symbols"][0]
    text = " ".join(symbols[token] for token in view["tokens"][: len(layout["positions"])])
    return Item(shortened(text), label=view.get("class", ""))


def _rows_block(layout: Json, names: Sequence[str], views: Sequence[Sequence[Json]]) -> Rows:
    """One row for each number of steps; cells that differ from fewer steps are marked."""
    symbols, count = layout["symbols"], len(layout["positions"])
    groups = []
    for same_noise in zip(*views, strict=True):
        group, above = [], None
        for name, view in zip(names, same_noise, strict=True):
            texts = [symbols[i % len(symbols)][t] for i, t in enumerate(view["tokens"][:count])]
            changed = (
                [False] * count
                if above is None
                else [text != other for text, other in zip(texts, above, strict=True)]
            )
            cells = (RowCell(shortened(t), c) for t, c in zip(texts, changed, strict=True))
            group.append((RowCell(name), *cells))
            above = texts
        groups.append(tuple(group))
    return Rows(("", *layout["positions"]), tuple(groups))
