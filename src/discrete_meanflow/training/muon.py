"""Muon (Jordan et al. 2024): matrices inside a network move in all directions alike."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
ROUNDS = 5
QUINTIC = (3.4445, -4.7750, 2.0315)  # drives singular values to 1 or so, small ones fast
LIKE_ADAM = 0.2  # root mean square of a step of AdamW, in learning rates


class Muon(torch.optim.AdamW):
    """AdamW, but for ``matrices``: ``W <- (1 - lr wd) W - ratio lr 0.2 sqrt(n) orthogonal(B)``.

    B is the momentum of the gradient, cut into squares of side n and each made orthogonal: a step
    moves what the gradient hardly sees as far as what it sees most. The squares of all matrices and
    seeds go through one stack of products. ``torch.optim.Muon`` takes matrices one by one and its
    learning rate as a number, and a captured step can do neither well.
    """

    def __init__(
        self, parameters: Iterable[Tensor], matrices: Iterable[Tensor], ratio: float, **adam: Any
    ) -> None:
        """matrices: those among the parameters, each ``(seeds, rows, columns)``; ratio: of their
        learning rate to that of the rest."""
        super().__init__(parameters, **adam)
        self.matrices, self.ratio = list(matrices), ratio

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        if self.matrices:
            self._move_matrices()
        super().step()

    def _move_matrices(self) -> None:
        """All at once: a GPU is slow to begin, and there are many small ones."""
        group = self.param_groups[0]
        gradients = []
        for p in self.matrices:
            assert p.grad is not None
            gradients.append(p.grad)
            p.grad = None  # leaves AdamW the others
            if "momentum" not in self.state[p]:
                self.state[p]["momentum"] = torch.zeros_like(p)
        momenta = [self.state[p]["momentum"] for p in self.matrices]
        torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
        ahead = torch._foreach_lerp(gradients, momenta, MOMENTUM)
        torch._foreach_mul_(self.matrices, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_sub_(self.matrices, self._steps(ahead, group["lr"]))

    def _steps(self, gradients: Sequence[Tensor], rate: Tensor) -> list[Tensor]:
        """``ratio lr 0.2 sqrt(n) orthogonal`` of each, those of one shape together."""
        alike: dict[torch.Size, list[int]] = defaultdict(list)
        # Half precision is slow on a CPU; on a GPU what is moved about is half as much.
        squares = [cut(g.bfloat16() if g.is_cuda else g) for g in gradients]
        for i, found in enumerate(squares):
            alike[found.shape[1:]].append(i)
        steps: dict[int, Tensor] = {}
        for shape, places in alike.items():
            moved = orthogonal(torch.cat([squares[i] for i in places])).float()
            moved = moved * (rate * self.ratio * LIKE_ADAM * max(shape) ** 0.5)
            parts = moved.split([len(squares[i]) for i in places])
            steps |= {i: joined(s, gradients[i]) for i, s in zip(places, parts, strict=True)}
        return [steps[i] for i in range(len(gradients))]


def inner_matrices(module: nn.Module) -> set[str]:
    """The names of the matrices in layers that repeat: neither the first nor the last of all."""
    return {
        f"{stack}.{name}.weight"
        for stack, layers in module.named_modules()
        if isinstance(layers, nn.ModuleList)
        for name, layer in layers.named_modules()
        if isinstance(layer, nn.Linear)
    }


def cut(matrices: Tensor) -> Tensor:
    """``(seeds, rows, columns)`` into squares ``(k, n, n)``; whole where that does not come out."""
    rows, columns = matrices.shape[1:]
    n = min(rows, columns)
    if max(rows, columns) % n:
        return matrices
    return matrices.unflatten(2, (-1, n)).unflatten(1, (-1, n)).transpose(2, 3).flatten(0, 2)


def joined(squares: Tensor, like: Tensor) -> Tensor:
    """What ``cut`` took apart, in the shape that it had."""
    if squares.shape[1:] == like.shape[1:]:
        return squares
    seeds, rows, columns = like.shape
    n = squares.shape[-1]
    blocks = squares.reshape(seeds, rows // n, columns // n, n, n)
    return blocks.transpose(2, 3).reshape(like.shape)


def orthogonal(matrices: Tensor) -> Tensor:
    """``U V^T`` of each ``U S V^T``, nearly, by products alone."""
    x = matrices.mT if matrices.shape[-2] > matrices.shape[-1] else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = QUINTIC
    for _ in range(ROUNDS):  # x <- a x + (b G + c G^2) x, the sums within the products
        gram = x @ x.mT
        gram = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, gram, x, beta=a)
    return x.mT if matrices.shape[-2] > matrices.shape[-1] else x
