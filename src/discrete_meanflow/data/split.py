import numpy
import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State


def distinct(tokens: State) -> State:
    """Each row once, in the order of first occurrence."""
    _, first = numpy.unique(tokens.numpy(), axis=0, return_index=True)
    return tokens[torch.from_numpy(numpy.sort(first))]


def split(tokens: State, held_out: int, seed: int = 0) -> tuple[State, State]:
    """Rows for training and ``held_out`` rows apart; duplicates are removed before."""
    tokens = distinct(tokens)
    if not 0 < held_out < len(tokens):
        raise InputError(
            f"split: {held_out} of {len(tokens)} distinct records cannot be held out, as both "
            "parts need at least one"
        )
    order = torch.from_numpy(numpy.random.default_rng(seed).permutation(len(tokens)))
    return tokens[order[held_out:]], tokens[order[:held_out]]
