"""Distributions known in closed form, arrays of tokens, splits."""

from discrete_meanflow.data.labels import label_tokens, labelled
from discrete_meanflow.data.law import BigramChain, IndependentCategorical, Law, Sequences
from discrete_meanflow.data.tokens import TokenArray

__all__ = [
    "BigramChain",
    "IndependentCategorical",
    "Law",
    "Sequences",
    "TokenArray",
    "label_tokens",
    "labelled",
]
