"""The libraries whose frames are read and made."""

from typing import Any

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.table.arrow_table import ArrowTables
from discrete_meanflow.io.table.frame import FrameLibrary
from discrete_meanflow.io.table.pandas_frame import PandasFrames
from discrete_meanflow.io.table.polars_frame import PolarsFrames

LIBRARIES: dict[str, FrameLibrary] = {
    library.name: library for library in (PandasFrames(), PolarsFrames(), ArrowTables())
}


def library_of(records: Any) -> FrameLibrary | None:
    """The library of a frame; None if records are no frame."""
    if not hasattr(type(records), "columns"):
        return None
    modules = {kind.__module__.partition(".")[0] for kind in type(records).__mro__}
    for name, library in LIBRARIES.items():
        if name in modules:
            return library
    raise InputError(
        f"data: a {type(records).__name__} of {type(records).__module__} is no frame of "
        f"{', '.join(LIBRARIES)}; convert it to one"
    )
