import torch
from torch import Tensor

from discrete_meanflow.data.base import Sequences, digest
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

CHECKED = 100_000  # records looked at together
STORED = (torch.uint8, torch.int32)  # what tokens are kept in, where 256 suffice and where not


def lot(length: int) -> int:
    """How many records of so many positions are worked on together."""
    return max(1, min(CHECKED, (1 << 20) // max(1, length)))


def stored(symbols: int) -> torch.dtype:
    """The numbers that tokens of so many symbols are kept in."""
    return STORED[symbols > 256]


class TokenArray(Sequences):
    """Given sequences, as whole numbers in an array of shape ``(records, D)``."""

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
            raise InputError(f"data: tokens must be whole numbers, got {tokens.dtype}")
        # Piece by piece: the tokens may be a file that is larger than memory.
        for first in range(0, len(tokens), CHECKED):
            some = tokens[first : first + CHECKED]
            # As Python's numbers: 256 does not fit into the small ones that tokens come in.
            if int(some.min()) >= 0 and int(some.max()) < vocabulary:
                continue
            wrong = ((some.long() < 0) | (some.long() >= vocabulary)).nonzero()
            record, place = (wrong[0] + torch.tensor([first, 0])).tolist()
            token = int(tokens[record, place])
            hint = " (that is the mask, which clean data cannot hold)"
            raise InputError(
                f"data: token {token} in record {record}, position {place} lies outside the "
                f"alphabet 0 .. {vocabulary - 1}{hint if token == vocabulary else ''}"
            )
        self.register_buffer("tokens", tokens, persistent=False)  # as small as they came

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> State:
        """Records drawn with replacement."""
        pick = torch.randint(
            len(self.tokens), shape, generator=g, device=self.tokens.device, dtype=torch.long
        )
        return self.tokens[pick].long()

    def extra_repr(self) -> str:
        return (
            f"records={len(self.tokens)}, vocabulary={self.vocabulary}, length={self.length}, "
            f"digest={digest(self.tokens)}"
        )
