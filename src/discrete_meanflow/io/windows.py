"""A long text as windows of tokens. The text is read in chunks and need not fit into memory."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy
import torch

from discrete_meanflow.data.tokens import numpy_token_dtype, scratch_array
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.alphabet import MAX_SYMBOLS, Alphabet
from discrete_meanflow.io.content import changed_error, text_chunks
from discrete_meanflow.io.subword_codec import SubwordCodec
from discrete_meanflow.types import State

TOKENIZER_CHUNK = 1 << 16  # characters tokenized at once


def survey(path: Path) -> tuple[Alphabet, int]:
    """The alphabet of a text and its number of characters."""
    symbols: set[str] = set()
    count = 0
    for text in text_chunks(path):
        symbols |= set(text)
        count += len(text)
        if len(symbols) > MAX_SYMBOLS:
            raise InputError(f"{path}: more than {MAX_SYMBOLS:,} distinct symbols, the limit")
    if not count:
        raise InputError(f"{path} is empty")
    return Alphabet("".join(sorted(symbols))), count


def windows(path: Path, length: int) -> tuple[Alphabet, State]:
    """The alphabet, and windows of ``length`` characters: tokens ``(N, length)``."""
    alphabet, count = survey(path)
    runs = map(alphabet.character_tokens, text_chunks(path))
    return alphabet, _fill_windows(path, runs, len(alphabet.symbols), count, length)


def subword_windows(path: Path, codec: SubwordCodec) -> State:
    """Windows of ``codec.length`` subwords: tokens ``(N, length)``."""
    count = sum(map(len, subword_runs(path, codec)))
    if not count:
        raise InputError(f"{path} is empty, or the tokenizer finds no subword in it")
    return _fill_windows(path, subword_runs(path, codec), codec.vocabulary, count, codec.length)


def subword_runs(path: Path, codec: SubwordCodec) -> Iterator[numpy.ndarray]:
    """The tokens of a text, one array per chunk."""
    dtype = numpy_token_dtype(codec.vocabulary)
    for chunk in chunks_at_whitespace(path):
        yield numpy.array(codec.tokenize([chunk], special_tokens=False)[0].ids, dtype)


def chunks_at_whitespace(path: Path) -> Iterator[str]:
    """The text in chunks that end before white space where possible, so that no word is cut."""
    rest = ""
    for chunk in text_chunks(path):
        rest += chunk
        while len(rest) > TOKENIZER_CHUNK:
            end = max(rest.rfind(space, 1, TOKENIZER_CHUNK) for space in " \n")
            end = end if end > 0 else TOKENIZER_CHUNK
            yield rest[:end]
            rest = rest[end:]
    yield rest


def _fill_windows(
    path: Path, runs: Iterable[numpy.ndarray], symbols: int, count: int, length: int
) -> State:
    """Concatenate runs of ``count`` tokens in all and cut them into windows ``(N, length)``."""
    if length < 1:
        raise InputError(f"--length: at least 1, got {length}")
    if count < 2 * length:
        raise InputError(
            f"{path}: {count} symbols are too few for windows of {length}; reduce --length"
        )
    used = count // length * length
    tokens = scratch_array((used,), numpy_token_dtype(symbols))
    filled = 0
    for run in runs:
        chunk = run[: used - filled]
        if (chunk < 0).any():  # a character that the survey did not see
            raise changed_error(path)
        tokens[filled : filled + len(chunk)] = chunk
        filled += len(chunk)
    if filled < used:
        raise changed_error(path)
    return torch.from_numpy(tokens).view(-1, length)
