"""Where clean sequences come from: laws that are known exactly, and arrays of tokens."""

from discrete_meanflow.data.base import Law, Sequences
from discrete_meanflow.data.bigram import BigramChain
from discrete_meanflow.data.independent import IndependentCategorical
from discrete_meanflow.data.tokens import TokenArray

__all__ = ["BigramChain", "IndependentCategorical", "Law", "Sequences", "TokenArray"]
