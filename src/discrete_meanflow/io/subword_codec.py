"""Codec of strings in the subwords of a Hugging Face tokenizer."""

import itertools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy
import torch

from discrete_meanflow.data.tokens import numpy_token_dtype
from discrete_meanflow.errors import InputError, error_context
from discrete_meanflow.io.codec import Codec, Dataset, Json
from discrete_meanflow.io.content import read_text
from discrete_meanflow.io.infill import require_string
from discrete_meanflow.io.layout import Layout
from discrete_meanflow.types import State

MAX_CHECKED = 10_000  # records searched for text outside the tokenizer's vocabulary


@dataclass(frozen=True)
class SubwordCodec(Codec):
    """Strings of at most ``size`` subwords. One more symbol serves as the pad.

    Args:
        tokenizer: the JSON of a Hugging Face tokenizer.
        size: number of positions.
    """

    tokenizer: str
    size: int

    @classmethod
    def _load(cls, path: Path | None, size: int) -> "SubwordCodec":
        """Read the tokenizer from a JSON file."""
        if path is None:
            raise InputError("tokenised text needs a tokenizer: --tokenizer FILE.json")
        codec = cls(read_text(path), size)
        with error_context(path):
            _ = codec.loaded_tokenizer
        return codec

    @classmethod
    def of(cls, strings: Collection[str], path: Path | None) -> "SubwordCodec":
        codec = cls._load(path, 1)
        longest = max(len(encoding.ids) for encoding in codec.tokenize(strings))
        if longest < 1:
            raise InputError(f"{path}: this tokenizer finds no subword in the data")
        return cls(codec.tokenizer, longest)

    @classmethod
    def of_text(cls, path: Path | None, length: int) -> "SubwordCodec":
        """For windows of one text: the tokenizer adds no special tokens."""
        tokenizer = cls._load(path, length).loaded_tokenizer
        tokenizer.post_processor = None
        return cls(tokenizer.to_str(), length)

    @cached_property
    def loaded_tokenizer(self) -> Any:
        """The ``tokenizers.Tokenizer``, without truncation and padding."""
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise InputError(
                "a tokenizer needs: pip install 'discrete-meanflow[tokenizers]'"
            ) from None
        try:
            tokenizer = Tokenizer.from_str(self.tokenizer)
        except Exception as error:  # the library raises plain exceptions
            raise InputError(
                f"not a Hugging Face tokenizer JSON: {str(error).splitlines()[0]}"
            ) from None
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def pad(self) -> int:
        """The padding token."""
        return max(self.loaded_tokenizer.get_vocab().values(), default=-1) + 1  # ids can have gaps

    @property
    def vocabulary(self) -> int:
        return self.pad + 1

    @property
    def length(self) -> int:
        return self.size

    def tokenize(self, strings: Iterable[str], special_tokens: bool = True) -> list[Any]:
        """The tokenizer's encoding of each string."""
        encode, records = self.loaded_tokenizer.encode_batch, list(strings)
        try:
            return list(encode(records, add_special_tokens=special_tokens))
        except Exception as error:  # the library raises plain exceptions
            message = f"the tokenizer cannot read the data: {error}"
            raise InputError(message.splitlines()[0]) from None

    @property
    def sequential(self) -> bool:
        return True

    @property
    def repeats(self) -> bool:
        return False

    def count(self, string: str) -> int:
        """Number of positions that a string takes."""
        return len(self.tokenize([string])[0].ids)

    def encode(self, records: Collection[str]) -> State:
        rows = [encoding.ids for encoding in self.tokenize(records)]
        tokens = numpy.full((len(rows), self.size), self.pad, numpy_token_dtype(self.vocabulary))
        for i, row in enumerate(rows):
            if len(row) > self.size:
                raise InputError(f"record {i + 1} has {len(row)} tokens, at most {self.size} fit")
            tokens[i, : len(row)] = row
        return torch.from_numpy(tokens)

    def out_of_vocabulary(self, string: str) -> str:
        """The parts of a string that the tokenizer maps to its unknown token or drops."""
        encoding = self.tokenize([string], special_tokens=False)[0]
        unknown_token = getattr(self.loaded_tokenizer.model, "unk_token", None)
        spans = zip(encoding.tokens, encoding.offsets, strict=True)
        unknown = [string[a:b] for token, (a, b) in spans if token == unknown_token]
        return " ".join([*unknown, *filter(self._is_dropped, dict.fromkeys(string))])

    @cached_property
    def _is_dropped(self) -> Callable[[str], bool]:
        """Whether a character other than white space gives no token."""
        return cache(lambda c: not (c.isspace() or self.tokenize([c], special_tokens=False)[0].ids))

    def decode(self, tokens: State) -> list[str]:
        """Strings up to the first pad, which has no text of its own."""
        rows = tokens.tolist()
        ends = [row.index(self.pad) if self.pad in row else len(row) for row in rows]
        kept = [row[:end] for row, end in zip(rows, ends, strict=True)]
        return list(self.loaded_tokenizer.decode_batch(kept))

    @property
    def layout(self) -> Layout:
        decode, name = self.loaded_tokenizer.decode, self.loaded_tokenizer.id_to_token
        symbols = (decode([i], skip_special_tokens=False) or name(i) for i in range(self.pad))
        return Layout.of_text(self.size, (*(symbol or "" for symbol in symbols), ""), self.pad)

    def card(self, dataset: Dataset) -> Json:
        card: Json = {"symbols": self.vocabulary, "tokens at most": self.length}
        checked = list(itertools.islice(iter(dataset.records), MAX_CHECKED))
        if lossy := sum(bool(self.out_of_vocabulary(record)) for record in checked):
            what = "records" if dataset.tokens is None else "lines at the beginning"
            card["note"] = (
                f"{lossy:,} of {len(checked):,} {what} contain text outside the tokenizer's "
                "vocabulary, which is lost"
            )
        return card

    def parse_infill(self, pattern: Any) -> dict[int, int]:
        """Parse a prefix: all positions after it are unknown, including a final special token."""
        if missing := self.out_of_vocabulary(require_string(pattern)):
            raise InputError(f"infill: the tokenizer has no subword for '{missing}'")
        ids, bare = (self.tokenize([pattern], special)[0].ids for special in (True, False))
        start = next((i for i in range(len(ids)) if ids[i : i + len(bare)] == bare), 0)
        ids = ids[: start + len(bare)]
        if len(ids) > self.size:
            raise InputError(f"infill: {len(ids)} tokens, the sequences have {self.size}")
        return dict(enumerate(ids))

    def describe(self) -> Json:
        return {"tokenizer": self.tokenizer, "length": self.size}

    @classmethod
    def from_json(cls, description: Json) -> "SubwordCodec":
        return cls(str(description["tokenizer"]), int(description["length"]))
