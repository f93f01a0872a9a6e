"""Distributions of clean sequences, two of them in closed form."""

import hashlib
from abc import ABC, abstractmethod

import numpy
import torch
from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.simplex import categorical
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

    @abstractmethod
    def marginals(self) -> Probs:
        """``p(x_d)``: shape ``(D, V)``."""

    @abstractmethod
    def pair_marginals(self) -> Tensor:
        """``p(x_d, x_{d+1})`` of adjacent positions: shape ``(D - 1, V, V)``."""


class Law(Sequences):
    """A distribution in closed form: the ground truth for generated sequences."""

    provenance: str  # of the probabilities

    @abstractmethod
    def log_prob(self, x: State) -> Tensor:
        """``log p(x)``: ``(*batch, D) -> (*batch,)``."""

    @abstractmethod
    def posterior(self, evidence: Tensor) -> Probs:
        """``p(x_d | evidence)``: shape ``(*batch, D, V)``.

        Raises ``InputError`` if the evidence has probability zero.

        Args:
            evidence: likelihood of the observation at position d given ``x_d = v``, up to a
                factor: shape ``(*batch, D, V)``.
        """

    def extra_repr(self) -> str:
        return f"vocabulary={self.vocabulary}, length={self.length}, {self.provenance}"


class IndependentCategorical(Law):
    """Independent positions: ``p(x) = prod_d p_d(x_d)``."""

    probs: Tensor

    def __init__(self, probs: Tensor) -> None:
        """Set the law of each position: ``probs`` has shape ``(D, V)``."""
        probs = _check_laws(probs, "independent categorical", 2)
        super().__init__(probs.shape[-1], probs.shape[0])
        self.register_buffer("probs", probs, persistent=False)
        self.provenance = f"digest={digest(probs)}"

    @classmethod
    def dirichlet(
        cls, vocabulary: int, length: int, concentration: float = 0.1, seed: int = 0
    ) -> "IndependentCategorical":
        """Draw ``p_d ~ Dirichlet(concentration)`` with ``numpy.random.default_rng(seed)``."""
        law = cls(_dirichlet_laws(vocabulary, length, concentration, seed))
        law.provenance = f"dirichlet={concentration:g}, seed={seed}"
        return law

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> State:
        return categorical(self.probs.expand(*shape, -1, -1), g)

    def log_prob(self, x: State) -> Tensor:
        return self.probs.expand(*x.shape, -1).gather(-1, x[..., None])[..., 0].log().sum(-1)

    def marginals(self) -> Probs:
        return self.probs

    def pair_marginals(self) -> Tensor:
        return self.probs[:-1, :, None] * self.probs[1:, None, :]

    def posterior(self, evidence: Tensor) -> Probs:
        return _normalised(self.probs * evidence)


class BigramChain(Law):
    """First-order Markov chain: ``p(x) = p_1(x_1) prod_d A[x_{d-1}, x_d]``."""

    initial: Tensor
    rows: Tensor

    def __init__(self, initial: Tensor, rows: Tensor, length: int) -> None:
        """Set the law ``p_1`` of the first symbol and the transition matrix A.

        Args:
            initial: shape ``(V,)``.
            rows: shape ``(V, V)``; row a is the law of the symbol that follows a.
            length: number of positions D.
        """
        initial = _check_laws(initial, "bigram, first symbol", 1)
        rows = _check_laws(rows, "bigram, next symbol", 2)
        super().__init__(len(initial), length)
        if rows.shape != (len(initial), len(initial)):
            raise InputError(
                f"bigram: {len(initial)} symbols need as many rows and columns, got shape "
                f"{tuple(rows.shape)}"
            )
        self.register_buffer("initial", initial, persistent=False)
        self.register_buffer("rows", rows, persistent=False)
        self.provenance = f"digest={digest(initial, rows)}"

    @classmethod
    def dirichlet(
        cls, vocabulary: int, length: int, concentration: float = 0.1, seed: int = 0
    ) -> "BigramChain":
        """Rows drawn with ``numpy.random.default_rng(seed)``; the first symbol is uniform."""
        rows = _dirichlet_laws(vocabulary, vocabulary, concentration, seed)
        uniform = torch.full((vocabulary,), 1 / vocabulary, dtype=torch.float64)
        law = cls(uniform, rows, length)
        law.provenance = f"dirichlet={concentration:g}, seed={seed}"
        return law

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> State:
        x = [categorical(self.initial.expand(*shape, -1), g)]
        for _ in range(self.length - 1):
            x.append(categorical(self.rows[x[-1]], g))
        return torch.stack(x, -1)

    def log_prob(self, x: State) -> Tensor:
        steps = self.rows[x[..., :-1], x[..., 1:]].log().sum(-1)
        return self.initial[x[..., 0]].log() + steps

    def marginals(self) -> Probs:
        p = [self.initial]
        for _ in range(self.length - 1):
            p.append(p[-1] @ self.rows)
        return torch.stack(p)

    def pair_marginals(self) -> Tensor:
        return self.marginals()[:-1, :, None] * self.rows

    def posterior(self, evidence: Tensor) -> Probs:
        """The forward-backward algorithm; messages are normalised at each position."""
        likelihood = evidence.double().unbind(-2)
        forward = [_normalised(self.initial * likelihood[0])]
        for e in likelihood[1:]:
            forward.append(_normalised((forward[-1] @ self.rows) * e))
        backward = [torch.ones_like(likelihood[-1])]
        for e in reversed(likelihood[1:]):
            backward.append(_normalised((backward[-1] * e) @ self.rows.T))
        return _normalised(torch.stack(forward, -2) * torch.stack(backward[::-1], -2))


def _dirichlet_laws(vocabulary: int, rows: int, concentration: float, seed: int) -> Tensor:
    """Categorical laws drawn from ``numpy.random.default_rng(seed).dirichlet``: ``(rows, V)``."""
    if not 0 < concentration < float("inf"):
        raise InputError(f"data: the Dirichlet concentration must be > 0, got {concentration:g}")
    if vocabulary < 2 or rows < 1:
        raise InputError(
            f"data: needs at least 2 symbols and at least one position, got {vocabulary} and {rows}"
        )
    rng = numpy.random.default_rng(seed)
    return torch.from_numpy(rng.dirichlet([concentration] * vocabulary, rows))


def _normalised(p: Tensor) -> Probs:
    """Normalise weights along the last axis; raise if all weights of a law are zero."""
    total = p.sum(-1, keepdim=True)
    if not bool((total > 0).all()):
        raise InputError("posterior: the evidence has probability zero under this law")
    return p / total


def _check_laws(p: Tensor, name: str, dims: int) -> Tensor:
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
