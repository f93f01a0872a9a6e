import hashlib
from abc import ABC, abstractmethod

import numpy
import torch
from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Probs, State


class Sequences(nn.Module, ABC):
    """Clean sequences ``x1`` of ``length`` D over the alphabet ``0 .. vocabulary - 1``."""

    def __init__(self, vocabulary: int, length: int) -> None:
        super().__init__()
        if vocabulary < 2:
            raise InputError(f"data: an alphabet needs at least 2 symbols, got {vocabulary}")
        if length < 1:
            raise InputError(f"data: sequences need at least one position, got {length}")
        self.vocabulary, self.length = vocabulary, length

    @abstractmethod
    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> State:
        """Independent draws of x1: shape ``(*shape, D)``."""


class Law(Sequences):
    """Sequences whose law is known: the truth that generated ones are measured against."""

    @abstractmethod
    def log_prob(self, x: State) -> Tensor:
        """``log p(x)``: ``(*batch, D) -> (*batch,)``."""

    @abstractmethod
    def marginals(self) -> Probs:
        """``p(x_d)``: shape ``(D, V)``."""

    @abstractmethod
    def pair_marginals(self) -> Tensor:
        """``p(x_d, x_{d+1})`` of neighbours: shape ``(D - 1, V, V)``."""

    @abstractmethod
    def posterior(self, evidence: Tensor) -> Probs:
        """``p(x_d | evidence)``: shape ``(*batch, D, V)``, as that of ``evidence``.

        ``evidence[..., d, v]`` is the likelihood of what was seen at position d if ``x_d = v``,
        up to a factor. What cannot have been seen is refused.
        """


def dirichlet_laws(vocabulary: int, rows: int, concentration: float, seed: int) -> Tensor:
    """``rows`` laws from ``numpy.random.default_rng(seed).dirichlet``: shape ``(rows, V)``."""
    if not 0 < concentration < float("inf"):
        raise InputError(f"data: the Dirichlet concentration must be > 0, got {concentration:g}")
    if vocabulary < 2 or rows < 1:
        raise InputError(
            f"data: needs at least 2 symbols and at least one position, got {vocabulary} and {rows}"
        )
    rng = numpy.random.default_rng(seed)
    return torch.from_numpy(rng.dirichlet([concentration] * vocabulary, rows))


def normalised(p: Tensor) -> Probs:
    """Weights as a law in the last axis; all of them zero means that what was seen cannot be."""
    total = p.sum(-1, keepdim=True)
    if not bool((total > 0).all()):
        raise InputError("posterior: what was seen has probability zero under this law")
    return p / total


def check_laws(p: Tensor, what: str, dims: int) -> Tensor:
    """Laws in the last axis, as float64, in an array of ``dims`` axes."""
    p = torch.as_tensor(p, dtype=torch.float64)
    if p.dim() != dims:
        raise InputError(f"{what}: needs {dims} axes, the last over symbols, got {tuple(p.shape)}")
    if not bool(((p >= 0).all(-1) & ((p.sum(-1) - 1).abs() <= 1e-9)).all()):
        raise InputError(f"{what}: probabilities must be >= 0 and sum to 1")
    return p


def digest(*tensors: Tensor) -> str:
    """A few letters that tell one set of numbers from another."""
    content = b"".join(t.cpu().contiguous().numpy().tobytes() for t in tensors)
    return hashlib.sha256(content).hexdigest()[:12]
