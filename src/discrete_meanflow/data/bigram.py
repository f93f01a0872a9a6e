"""A Markov chain over positions."""

import torch
from torch import Tensor

from discrete_meanflow.data.base import Law, check_laws, digest, dirichlet_laws, normalised
from discrete_meanflow.errors import InputError
from discrete_meanflow.simplex import categorical
from discrete_meanflow.types import Probs, State


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
        initial = check_laws(initial, "bigram, first symbol", 1)
        rows = check_laws(rows, "bigram, next symbol", 2)
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
        rows = dirichlet_laws(vocabulary, vocabulary, concentration, seed)
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
        forward = [normalised(self.initial * likelihood[0])]
        for e in likelihood[1:]:
            forward.append(normalised((forward[-1] @ self.rows) * e))
        backward = [torch.ones_like(likelihood[-1])]
        for e in reversed(likelihood[1:]):
            backward.append(normalised((backward[-1] * e) @ self.rows.T))
        return normalised(torch.stack(forward, -2) * torch.stack(backward[::-1], -2))

    def extra_repr(self) -> str:
        return f"vocabulary={self.vocabulary}, length={self.length}, {self.provenance}"
