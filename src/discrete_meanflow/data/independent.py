"""A product of categorical distributions."""

import torch
from torch import Tensor

from discrete_meanflow.data.base import Law, check_laws, digest, dirichlet_laws, normalised
from discrete_meanflow.simplex import categorical
from discrete_meanflow.types import Probs, State


class IndependentCategorical(Law):
    """Independent positions: ``p(x) = prod_d p_d(x_d)``."""

    probs: Tensor

    def __init__(self, probs: Tensor) -> None:
        """Set the law of each position: ``probs`` has shape ``(D, V)``."""
        probs = check_laws(probs, "independent categorical", 2)
        super().__init__(probs.shape[-1], probs.shape[0])
        self.register_buffer("probs", probs, persistent=False)
        self.provenance = f"digest={digest(probs)}"

    @classmethod
    def dirichlet(
        cls, vocabulary: int, length: int, concentration: float = 0.1, seed: int = 0
    ) -> "IndependentCategorical":
        """Draw ``p_d ~ Dirichlet(concentration)`` with ``numpy.random.default_rng(seed)``."""
        law = cls(dirichlet_laws(vocabulary, length, concentration, seed))
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
        return normalised(self.probs * evidence)

    def extra_repr(self) -> str:
        return f"vocabulary={self.vocabulary}, length={self.length}, {self.provenance}"
