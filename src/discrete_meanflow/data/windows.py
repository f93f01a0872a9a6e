"""A long text as windows of tokens, read piece by piece: it need not fit into memory."""

import codecs
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy
import torch

from discrete_meanflow.data.alphabet import MOST, Alphabet, small
from discrete_meanflow.data.read import unpacked
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

PIECE = 1 << 22  # bytes read at once


def pieces(path: Path) -> Iterator[str]:
    """The text of a file, gzipped or not, some millions of characters at a time."""
    # Without the mark that some editors begin with, and new lines of one kind.
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8-sig")(), True)
    lines = 1
    try:
        with unpacked(path) as file:
            while content := file.read(PIECE):
                text = decoder.decode(content)
                lines += text.count("\n")
                yield text
            yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        line = lines + error.object[: error.start].count(b"\n")
        raise InputError(f"{path}, line {line}: not UTF-8 text") from None


def survey(path: Path) -> tuple[Alphabet, int]:
    """The characters of a text and how many there are in all."""
    symbols: set[str] = set()
    count = 0
    for text in pieces(path):
        symbols |= set(text)
        count += len(text)
        if len(symbols) > MOST:
            raise InputError(f"{path}: more than {MOST:,} distinct symbols; at most that many work")
    if not count:
        raise InputError(f"{path} is empty")
    return Alphabet("".join(sorted(symbols))), count


def windows(path: Path, length: int) -> tuple[Alphabet, State]:
    """Tokens of the windows, ``(N, length)``, in a file that is mapped and gone with them."""
    if length < 1:
        raise InputError(f"--length: at least 1, got {length}")
    alphabet, count = survey(path)
    if count < 2 * length:
        raise InputError(f"{path}: {count} characters are too few for windows of {length}")
    number = numpy.zeros(ord(alphabet.symbols[-1]) + 1, dtype=numpy.int32)
    number[[ord(symbol) for symbol in alphabet.symbols]] = numpy.arange(len(alphabet.symbols))
    used = count // length * length
    tokens = _mapped(used, small(len(alphabet.symbols)))
    place = 0
    for text in pieces(path):
        points = numpy.frombuffer(text.encode("utf-32-le"), dtype=numpy.uint32)
        points = points[: used - place]
        tokens[place : place + len(points)] = number[points]
        place += len(points)
    return alphabet, torch.from_numpy(tokens).view(-1, length)


def _mapped(count: int, kind: numpy.dtype) -> numpy.memmap:
    """An array in a file that is gone with it. Its room is taken at once: a disk that is full
    later would end the program without a word."""
    lasting = "/var/tmp"  # on a disk, where /tmp may be memory
    told = "TMPDIR" in os.environ
    folder = lasting if not told and os.access(lasting, os.W_OK) else None
    try:
        with tempfile.NamedTemporaryFile(prefix="dmf-", suffix=".tokens", dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, count * kind.itemsize)
            return numpy.memmap(file.name, kind, "r+", shape=(count,))
    except OSError as error:
        raise InputError(f"no room for {count:,} tokens: {error.strerror or error}") from None
