"""Strings in the pieces of a tokenizer, in the place of characters."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy
import torch

from discrete_meanflow.data.alphabet import small
from discrete_meanflow.data.codec import Codec, Json, in_text
from discrete_meanflow.data.content import text
from discrete_meanflow.errors import InputError, error_context
from discrete_meanflow.types import State


@dataclass(frozen=True)
class SubwordCodec(Codec):
    """Strings of at most ``size`` tokens of a Hugging Face tokenizer, given as its JSON.

    One symbol more fills what is behind the end.
    """

    tokenizer: str
    size: int

    @classmethod
    def of(cls, strings: Collection[str], path: Path) -> "SubwordCodec":
        pieces = cls._from(path, 1)
        longest = max(len(each.ids) for each in pieces.read(strings))
        if longest < 1:
            raise InputError(f"{path}: this tokenizer makes nothing of the data")
        return cls(pieces.tokenizer, longest)

    @classmethod
    def of_text(cls, path: Path, length: int) -> "SubwordCodec":
        """For windows of one text: no signs of a beginning or an end are put into it."""
        reader = cls._from(path, length).reader
        reader.post_processor = None
        return cls(reader.to_str(), length)

    @classmethod
    def _from(cls, path: Path, size: int) -> "SubwordCodec":
        pieces = cls(text(path), size)
        with error_context(path):
            _ = pieces.reader
        return pieces

    @cached_property
    def reader(self) -> Any:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise InputError(
                "a tokenizer needs: pip install 'discrete-meanflow[tokenizers]'"
            ) from None
        try:
            found = Tokenizer.from_str(self.tokenizer)
        except Exception as error:  # the library raises nothing more special
            raise InputError(f"this is no tokenizer: {str(error).splitlines()[0]}") from None
        # A file may ask for both, and records would lose their ends, or get others.
        found.no_truncation()
        found.no_padding()
        return found

    @cached_property
    def pad(self) -> int:
        """The symbol behind the end."""
        return max(self.reader.get_vocab().values(), default=-1) + 1  # ids may have gaps

    @property
    def vocabulary(self) -> int:
        return self.pad + 1

    @property
    def length(self) -> int:
        return self.size

    def read(self, strings: Iterable[str], signs: bool = True) -> list[Any]:
        """What the tokenizer makes of each, with the signs that it puts around a record or not."""
        try:
            found: list[Any] = self.reader.encode_batch(list(strings), add_special_tokens=signs)
        except Exception as error:  # the library raises nothing more special
            text = f"the tokenizer cannot read the data: {error}"
            raise InputError(text.splitlines()[0]) from None
        return found

    def count(self, string: str) -> int:
        """How many positions a string takes."""
        return len(self.read([string])[0].ids)

    def encode(self, records: Collection[str]) -> State:
        rows = [each.ids for each in self.read(records)]
        for i, row in enumerate(rows, 1):
            if len(row) > self.size:
                raise InputError(f"record {i} has {len(row)} tokens, at most {self.size} fit")
        filled = numpy.full((len(rows), self.size), self.pad, small(self.vocabulary))
        for place, row in zip(filled, rows, strict=True):
            place[: len(row)] = row
        return torch.from_numpy(filled)

    def missing(self, string: str) -> str:
        """What of a string the tokenizer has no piece for: unknown to it, or dropped."""
        found = self.read([string], signs=False)[0]
        told, unknown = zip(found.tokens, found.offsets, strict=True), self._unknown
        lost = [string[a:b] for token, (a, b) in told if token == unknown]
        return " ".join([*lost, *(c for c in dict.fromkeys(string) if self._dropped(c))])

    @cached_property
    def _unknown(self) -> str | None:
        return getattr(self.reader.model, "unk_token", None)

    @cached_property
    def _dropped(self) -> Callable[[str], bool]:
        """Whether nothing is made of a character, and that is no space."""
        return cache(lambda c: not (c.isspace() or self.read([c], signs=False)[0].ids))

    def decode(self, tokens: State) -> list[str]:
        """Up to the first end: a tokenizer has no sign for one in the middle."""
        rows = tokens.tolist()
        until = [row.index(self.pad) if self.pad in row else len(row) for row in rows]
        kept = [row[:end] for row, end in zip(rows, until, strict=True)]
        return list(self.reader.decode_batch(kept))

    def known(self, pattern: Any) -> dict[int, int]:
        """A pattern is a beginning: what follows is unknown, an end that a tokenizer adds, too."""
        if missing := self.missing(in_text(pattern)):
            raise InputError(f"clamp: the tokenizer has no piece for '{missing}'")
        ids, bare = (self.read([in_text(pattern)], signs)[0].ids for signs in (True, False))
        begins = next((i for i in range(len(ids)) if ids[i : i + len(bare)] == bare), 0)
        ids = ids[: begins + len(bare)]
        if len(ids) > self.size:
            raise InputError(f"clamp: {len(ids)} tokens, the sequences have {self.size}")
        return dict(enumerate(ids))

    def describe(self) -> Json:
        return {"tokenizer": self.tokenizer, "length": self.size}

    @classmethod
    def from_json(cls, words: Json) -> "SubwordCodec":
        return cls(str(words["tokenizer"]), int(words["length"]))
