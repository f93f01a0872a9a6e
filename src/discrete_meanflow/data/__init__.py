"""Data sources: distributions known in closed form, arrays of tokens, files."""

from discrete_meanflow.data.alphabet import Alphabet
from discrete_meanflow.data.base import Law, Sequences
from discrete_meanflow.data.bigram import BigramChain
from discrete_meanflow.data.independent import IndependentCategorical
from discrete_meanflow.data.labels import label_tokens, labelled
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
