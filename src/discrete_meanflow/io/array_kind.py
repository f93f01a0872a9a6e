"""The kind of arrays of whole numbers."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from discrete_meanflow.io.array_codec import ArrayCodec, read_array
from discrete_meanflow.io.codec import Dataset
from discrete_meanflow.io.kind import Kind
from discrete_meanflow.io.write import Write
from discrete_meanflow.io.write_array import array_writer


class Array(Kind):
    """An array of non-negative integers, records along its first axis."""

    name = "array"
    suffixes = (".npy", ".npz")
    codec = ArrayCodec

    def read(self, path: Path) -> Dataset:
        records, source = read_array(path)
        return Dataset(records, ArrayCodec.of(records), source=source)

    def writer(self, path: Path | None, codec: Any, count: int) -> AbstractContextManager[Write]:
        return array_writer(path, codec, count)
