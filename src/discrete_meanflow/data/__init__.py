"""Data sources: distributions known in closed form, arrays of tokens, files."""

from discrete_meanflow.data.alphabet import Alphabet
from discrete_meanflow.data.labelled_codec import label_tokens, labelled
from discrete_meanflow.data.law import BigramChain, IndependentCategorical, Law, Sequences
from discrete_meanflow.data.tokens import TokenArray

__all__ = [
    "Alphabet",
    "BigramChain",
    "IndependentCategorical",
    "Law",
    "Sequences",
    "TokenArray",
    "label_tokens",
    "labelled",
]
