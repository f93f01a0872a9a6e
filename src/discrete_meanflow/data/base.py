"""Distributions of clean sequences."""

import hashlib
from abc import ABC, abstractmethod

import numpy
import torch
from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Probs, State


class Sequences(nn.Module, ABC):
    """A distribution of clean sequences ``x1`` of length D over the tokens ``0 .. V - 1``."""

    def __init__(self, vocabulary: int, length: int) -> None:
        super().__init__()
        if vocabulary < 2:
            raise InputError(f"data: an alphabet needs at least 2 symbols, got {vocabulary}")
        if length < 1:
            raise InputError(f"data: a sequence needs at least one position, got {length}")
        self.vocabulary, self.length = vocabulary, length

    @abstractmethod
    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> State:
        """Independent draws of x1: shape ``(*shape, D)``."""


class Law(Sequences):
    """A distribution in closed form: the ground truth for generated sequences."""

    @abstractmethod
    def log_prob(self, x: State) -> Tensor:
        """``log p(x)``: ``(*batch, D) -> (*batch,)``."""

    @abstractmethod
    def marginals(self) -> Probs:
        """``p(x_d)``: shape ``(D, V)``."""

    @abstractmethod
    def pair_marginals(self) -> Tensor:
        """``p(x_d, x_{d+1})`` of adjacent positions: shape ``(D - 1, V, V)``."""

    @abstractmethod
    def posterior(self, evidence: Tensor) -> Probs:
        """``p(x_d | evidence)``: shape ``(*batch, D, V)``.

        Raises ``InputError`` if the evidence has probability zero.

        Args:
            evidence: likelihood of the observation at position d given ``x_d = v``, up to a
                factor: shape ``(*batch, D, V)``.
        """


def dirichlet_laws(vocabulary: int, rows: int, concentration: float, seed: int) -> Tensor:
    """Categorical laws drawn from ``numpy.random.default_rng(seed).dirichlet``: ``(rows, V)``."""
    if not 0 < concentration < float("inf"):
        raise InputError(f"data: the Dirichlet concentration must be > 0, got {concentration:g}")
    if vocabulary < 2 or rows < 1:
        raise InputError(
            f"data: needs at least 2 symbols and at least one position, got {vocabulary} and {rows}"
        )
    rng = numpy.random.default_rng(seed)
    return torch.from_numpy(rng.dirichlet([concentration] * vocabulary, rows))


def normalised(p: Tensor) -> Probs:
    """Normalise weights along the last axis; raise if all weights of a law are zero."""
    total = p.sum(-1, keepdim=True)
    if not bool((total > 0).all()):
        raise InputError("posterior: the evidence has probability zero under this law")
    return p / total


def check_laws(p: Tensor, name: str, dims: int) -> Tensor:
    """Check that the last of ``dims`` axes holds probabilities; return them as float64."""
    p = torch.as_tensor(p, dtype=torch.float64)
    if p.dim() != dims:
        raise InputError(f"{name}: needs {dims} axes, the last over symbols, got {tuple(p.shape)}")
    if not bool(((p >= 0).all(-1) & ((p.sum(-1) - 1).abs() <= 1e-9)).all()):
        raise InputError(f"{name}: probabilities must be >= 0 and sum to 1")
    return p


def digest(*tensors: Tensor) -> str:
    """First 12 hexadecimal digits of the SHA-256 of the tensors' bytes."""
    content = b"".join(t.cpu().contiguous().numpy().tobytes() for t in tensors)
    return hashlib.sha256(content).hexdigest()[:12]
