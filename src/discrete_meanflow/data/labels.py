"""Class labels as extra tokens of a record."""

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State


def label_positions(classes: int, vocabulary: int) -> int:
    """Number of positions of a label: the digits of ``classes - 1`` in base V."""
    if classes < 2 or vocabulary < 2:
        raise InputError(
            f"labels: need at least 2 classes and 2 symbols, got {classes} and {vocabulary}"
        )
    digits = 1
    while vocabulary**digits < classes:
        digits += 1
    return digits


def label_tokens(labels: Tensor, classes: int, vocabulary: int) -> State:
    """Labels ``(N,)`` in base V, most significant digit first: shape ``(N, digits)``."""
    if labels.dim() != 1 or bool(((labels < 0) | (labels >= classes)).any()):
        raise InputError(f"labels: must be integers from 0 to {classes - 1}, one per record")
    powers = torch.arange(label_positions(classes, vocabulary) - 1, -1, -1)
    return labels[:, None] // vocabulary**powers % vocabulary


def labelled(tokens: State, labels: Tensor, classes: int, vocabulary: int) -> State:
    """Append the label to each record, in the same alphabet: ``(N, D + digits)``.

    Observed label positions condition on the class (``FixedPositions``); otherwise the class is
    generated together with the record.
    """
    if len(labels) != len(tokens):
        raise InputError(f"labels: {len(labels)} labels for {len(tokens)} records")
    return torch.cat([tokens, label_tokens(labels, classes, vocabulary).to(tokens.dtype)], -1)
