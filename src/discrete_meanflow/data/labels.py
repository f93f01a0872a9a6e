import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State


def label_positions(classes: int, vocabulary: int) -> int:
    """How many positions a label takes: the digits of ``classes - 1`` in base V."""
    if classes < 2 or vocabulary < 2:
        raise InputError(
            f"labels: need at least 2 classes and 2 symbols, got {classes} and {vocabulary}"
        )
    places = 1
    while vocabulary**places < classes:
        places += 1
    return places


def label_tokens(labels: Tensor, classes: int, vocabulary: int) -> State:
    """Labels ``(N,)`` in base V, the first digit first: shape ``(N, places)``."""
    if labels.dim() != 1 or bool(((labels < 0) | (labels >= classes)).any()):
        raise InputError(f"labels: must be whole numbers from 0 to {classes - 1}, one per record")
    places = torch.arange(label_positions(classes, vocabulary) - 1, -1, -1)
    return labels[:, None] // vocabulary**places % vocabulary


def label_numbers(tokens: State, vocabulary: int) -> Tensor:
    """What ``label_tokens`` wrote, ``(N,)``; what a network wrote may be the number of no class."""
    places = torch.arange(tokens.shape[1] - 1, -1, -1)
    return (tokens.long() * vocabulary**places).sum(-1)


def labelled(tokens: State, labels: Tensor, classes: int, vocabulary: int) -> State:
    """Records with their label behind them, in the same alphabet: ``(N, D + places)``.

    A class is then a sequence's last positions: known when they are clamped (``Given``), drawn
    along with the rest when they are not.
    """
    if len(labels) != len(tokens):
        raise InputError(f"labels: {len(labels)} of them for {len(tokens)} records")
    return torch.cat([tokens, label_tokens(labels, classes, vocabulary).to(tokens.dtype)], -1)
