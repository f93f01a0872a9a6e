"""Records and their codec."""

from dataclasses import dataclass
from typing import Any

from discrete_meanflow.data.codec import Codec
from discrete_meanflow.types import State


@dataclass(frozen=True)
class Dataset:
    """Records and the codec that turns them into tokens.

    Args:
        records: strings, rows or an array; a pair of these and their classes if the codec is a
            ``LabelledCodec``. None, or the first lines of the text, if ``tokens`` are set.
        codec: encodes the records.
        tokens: windows of one text, encoded already.
        source: which of several arrays of a file the records are.
    """

    records: Any
    codec: Codec
    tokens: State | None = None
    source: str | None = None

    @property
    def bare(self) -> Any:
        """The records without their classes."""
        return self.records if self.codec.bare is self.codec else self.records[0]

    def encoded(self) -> State:
        return self.codec.encode(self.records) if self.tokens is None else self.tokens
