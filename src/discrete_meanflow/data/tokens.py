"""Arrays of tokens: in small dtypes, and in a temporary file where they are large."""

import os
import tempfile
from collections.abc import Callable

import numpy
import torch
from torch import Tensor

from discrete_meanflow.data.law import Sequences, digest
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Probs, State

CHUNK_ROWS = 100_000  # records processed at once, at most
CHUNK_TOKENS = 1 << 20  # tokens processed at once, at most
TOKEN_DTYPES = (torch.uint8, torch.int32)  # for up to 256 symbols, and for more
MAX_IN_MEMORY = 1 << 26  # bytes
DISK_FOLDER = "/var/tmp"  # on disk, whereas /tmp may be in memory


def chunk_rows(length: int) -> int:
    """Number of records of ``length`` positions to process at once."""
    return max(1, min(CHUNK_ROWS, CHUNK_TOKENS // max(1, length)))


def token_dtype(symbols: int) -> torch.dtype:
    """Smallest dtype that stores tokens of an alphabet of ``symbols`` symbols."""
    return TOKEN_DTYPES[symbols > 256]


def numpy_token_dtype(symbols: int) -> numpy.dtype:
    """``token_dtype`` as a NumPy dtype."""
    return torch.empty(0, dtype=token_dtype(symbols)).numpy().dtype


def scratch_array(shape: tuple[int, ...], dtype: numpy.dtype) -> numpy.ndarray:
    """Uninitialised writable array; a large one is a memory-mapped file without a name.

    The file is allocated at once: a disk that fills up later would kill the process silently.
    """
    size = dtype.itemsize * int(numpy.prod(shape, dtype=numpy.int64))
    if size <= MAX_IN_MEMORY:
        return numpy.empty(shape, dtype)
    on_disk = "TMPDIR" not in os.environ and os.access(DISK_FOLDER, os.W_OK)
    folder = DISK_FOLDER if on_disk else tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(prefix="dmf-", dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            return numpy.memmap(file, dtype, "r+", shape=shape)
    except OSError as error:
        raise InputError(
            f"cannot allocate {size:,} bytes in {folder}: {error.strerror or error}; set TMPDIR "
            "to a folder with more space"
        ) from None


class TokenArray(Sequences):
    """The empirical distribution of given sequences: integer tokens of shape ``(records, D)``."""

    tokens: Tensor

    def __init__(self, tokens: Tensor, vocabulary: int) -> None:
        try:
            tokens = torch.as_tensor(tokens)
        except (ValueError, TypeError, RuntimeError) as error:
            raise InputError(f"data: cannot read tokens as an array ({error})") from None
        if tokens.dim() != 2:
            raise InputError(f"data: needs shape (records, length), got {tuple(tokens.shape)}")
        super().__init__(vocabulary, tokens.shape[1])
        if tokens.shape[0] == 0:
            raise InputError("data: the data set is empty; it needs at least one sequence")
        if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
            raise InputError(f"data: tokens must be integers, got {tokens.dtype}")
        self._check_range(tokens)
        self.register_buffer("tokens", tokens, persistent=False)  # in their own, small dtype

    def _check_range(self, tokens: Tensor) -> None:
        # In chunks: the tokens may be a memory-mapped file that exceeds memory.
        for first in range(0, len(tokens), CHUNK_ROWS):
            chunk = tokens[first : first + CHUNK_ROWS]
            # As Python integers: a vocabulary of 256 does not fit into uint8.
            if int(chunk.min()) >= 0 and int(chunk.max()) < self.vocabulary:
                continue
            wrong = ((chunk.long() < 0) | (chunk.long() >= self.vocabulary)).nonzero()
            record, position = (wrong[0] + torch.tensor([first, 0])).tolist()
            token = int(tokens[record, position])
            hint = " (this is the mask, which clean data cannot contain)"
            raise InputError(
                f"data: token {token} in record {record}, position {position} lies outside the "
                f"alphabet 0 .. {self.vocabulary - 1}{hint if token == self.vocabulary else ''}"
            )

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> State:
        """Records drawn with replacement."""
        rows = torch.randint(
            len(self.tokens), shape, generator=g, device=self.tokens.device, dtype=torch.long
        )
        return self.tokens[rows].long()

    def marginals(self) -> Probs:
        """Frequencies of the symbols at each position: shape ``(D, V)``."""
        return self._frequencies(lambda rows: rows, self.length, self.vocabulary)

    def pair_marginals(self) -> Tensor:
        """Frequencies of the pairs of adjacent symbols: shape ``(D - 1, V, V)``."""
        v = self.vocabulary
        pairs = self._frequencies(
            lambda rows: rows[:, :-1] * v + rows[:, 1:], self.length - 1, v**2
        )
        return pairs.unflatten(-1, (v, v))

    def _frequencies(self, codes: Callable[[Tensor], Tensor], columns: int, n: int) -> Probs:
        """Frequencies of codes ``0 .. n - 1`` in each of the columns that records become."""
        counts = torch.zeros(columns * n, dtype=torch.long)
        offsets = n * torch.arange(columns)
        for first in range(0, len(self.tokens), chunk_rows(self.length)):
            rows = self.tokens[first : first + chunk_rows(self.length)].long().cpu()
            counts += torch.bincount((codes(rows) + offsets).flatten(), minlength=columns * n)
        return counts.view(columns, n).double() / len(self.tokens)

    def extra_repr(self) -> str:
        return (
            f"records={len(self.tokens)}, vocabulary={self.vocabulary}, length={self.length}, "
            f"digest={digest(self.tokens)}"
        )
