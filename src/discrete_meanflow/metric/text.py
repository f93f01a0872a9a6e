"""Statistics of generated text."""

import math
from collections.abc import Sequence

import torch
from torch import nn

from discrete_meanflow.types import State


def known_words(texts: Sequence[str], vocabulary: set[str]) -> float:
    """Fraction of words that occur in ``vocabulary``; words cut by a window's edge are skipped."""
    words = [word for text in texts for word in _whole_words(text)]
    return sum(word in vocabulary for word in words) / max(1, len(words))


def _whole_words(text: str) -> list[str]:
    words = text.split()
    return words[not text[:1].isspace() : len(words) - (not text[-1:].isspace())]


def letter_entropy(x: State, vocabulary: int) -> float:
    """Entropy in bits of the symbol frequencies within a record, averaged over records.

    Report it beside generative perplexity: repetitive text has a low perplexity and a low entropy,
    so bits per symbol are comparable only at equal entropy.
    """
    frequency = nn.functional.one_hot(x.long(), vocabulary).double().mean(1)
    return -torch.special.xlogy(frequency, frequency).sum(-1).mean().item() / math.log(2)
