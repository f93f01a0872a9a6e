import torch
from torch import Tensor

from discrete_meanflow.data.base import Law, check_laws, digest, dirichlet_laws, normalised
from discrete_meanflow.errors import InputError
from discrete_meanflow.simplex import categorical
from discrete_meanflow.types import Probs, State


class BigramChain(Law):
    """``p(x) = p_1(x_1) prod_d A[x_{d-1}, x_d]``: each symbol depends on the one before."""

    initial: Tensor
    rows: Tensor

    def __init__(self, initial: Tensor, rows: Tensor, length: int) -> None:
        """initial: ``(V,)``. rows: ``(V, V)``, the law of the next symbol in each row."""
        initial = check_laws(initial, "bigram, first symbol", 1)
        rows = check_laws(rows, "bigram, next symbol", 2)
        super().__init__(len(initial), length)
        if rows.shape != (len(initial), len(initial)):
            raise InputError(f"bigram: {len(initial)} symbols need as many rows and columns")
        self.register_buffer("initial", initial, persistent=False)
        self.register_buffer("rows", rows, persistent=False)
        self.made = f"digest={digest(initial, rows)}"

    @classmethod
    def dirichlet(
        cls, vocabulary: int, length: int, concentration: float = 0.1, seed: int = 0
    ) -> "BigramChain":
        """Rows from ``numpy.random.default_rng(seed)``; the first symbol is uniform."""
        rows = dirichlet_laws(vocabulary, vocabulary, concentration, seed)
        uniform = torch.full((vocabulary,), 1 / vocabulary, dtype=torch.float64)
        law = cls(uniform, rows, length)
        law.made = f"dirichlet={concentration:g}, seed={seed}"
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
        """Forward and backward sums over the chain, each scaled to one."""
        seen = evidence.double().unbind(-2)
        ahead = [normalised(self.initial * seen[0])]
        for e in seen[1:]:
            ahead.append(normalised((ahead[-1] @ self.rows) * e))
        back = [torch.ones_like(seen[-1])]
        for e in reversed(seen[1:]):
            back.append(normalised((back[-1] * e) @ self.rows.T))
        return normalised(torch.stack(ahead, -2) * torch.stack(back[::-1], -2))

    def extra_repr(self) -> str:
        return f"vocabulary={self.vocabulary}, length={self.length}, {self.made}"
