"""Records of a run as JSON, for pages that show them."""

from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.types import State


def layout_view(config: Config) -> Json:
    """What a page needs to know once: the kind of data, the layout and the classes."""
    codec = config.codec
    return {
        "kind": config.kind.name,
        **codec.layout.describe(),
        "classes": list(codec.class_names),
        "class positions": codec.class_positions,
    }


def record_views(config: Config, tokens: State) -> list[Json]:
    """What a page shows of each record: tokens, text, class, validity and drawing.

    ``tokens`` includes the positions of the class, and ``text`` is what ``dmf sample`` prints of
    text. Rows, grids and lists are shown by their tokens and have no text. ``class``, ``valid``
    and ``svg`` are absent where the kind of data has none.
    """
    kind, codec = config.kind, config.codec
    records, tokens = codec.decode(tokens), tokens.cpu()
    columns: dict[str, list] = {"tokens": tokens.tolist()}
    if isinstance(records, list) and records and isinstance(records[0], str):
        columns["text"] = records
    if codec.class_names:
        columns["class"] = codec.classes_in(tokens)
    for name, values in (("valid", kind.valid(records)), ("svg", kind.drawings(records))):
        if values is not None:
            columns[name] = values
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]
