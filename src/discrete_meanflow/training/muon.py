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
        self,
        parameters: Iterable[Tensor],
        matrices: Iterable[Tensor],
        ratio: float,
        lr: Tensor,
        **adam: Any,
    ) -> None:
        """matrices: those among the parameters, each ``(seeds, rows, columns)``; ratio: of their
        learning rate to that of the rest, which is lr, a tensor on their device."""
        super().__init__(parameters, lr=lr, **adam)
        self.matrices, self.ratio = list(matrices), ratio
        # On a GPU what is moved about is half as much; on a CPU half precision is slow.
        self.halved = any(p.is_cuda for p in self.matrices)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        if self.matrices:
            self._move_matrices()
        super().step()

    def _move_matrices(self) -> None:
        """Those that are cut into one shape go through their products together: a GPU is slow to
        begin, and there are many small ones."""
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
        alike: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for p, gradient in zip(self.matrices, ahead, strict=True):
            squares = cut(p)
            alike[squares.shape[3:]].append((squares, cut(gradient)))
        for shape, pairs in alike.items():
            rate = group["lr"] * (self.ratio * LIKE_ADAM * max(shape) ** 0.5)
            self._move(pairs, rate)

    def _move(self, pairs: Sequence[tuple[Tensor, Tensor]], rate: Tensor) -> None:
        """``W <- W - rate orthogonal(B)`` of all ``(W, B)``, each ``(seeds, k, l, *shape)``."""
        first = pairs[0][1]
        counts = [found.shape[:3].numel() for _, found in pairs]
        dtype = torch.bfloat16 if self.halved else first.dtype
        stack = first.new_empty(sum(counts), *first.shape[3:], dtype=dtype)
        for place, (_, found) in zip(stack.split(counts), pairs, strict=True):
            place.view(found.shape).copy_(found)
        for step, (matrix, _) in zip(orthogonal(stack).split(counts), pairs, strict=True):
            matrix.addcmul_(step.reshape(matrix.shape), rate, value=-1)


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
    """``(seeds, rows, columns)`` as squares ``(seeds, k, l, n, n)`` of it, which share its memory;
    as one block where that does not come out."""
    rows, columns = matrices.shape[1:]
    n = min(rows, columns)
    if max(rows, columns) % n:
        return matrices[:, None, None]
    return matrices.unflatten(2, (-1, n)).unflatten(1, (-1, n)).transpose(2, 3)


def orthogonal(matrices: Tensor) -> Tensor:
    """``U V^T`` of each ``U S V^T``, nearly, by products alone."""
    x = matrices.mT if matrices.shape[-2] > matrices.shape[-1] else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = QUINTIC
    for _ in range(ROUNDS):
        # x <- (a I + b G + c G^2) x: to add a x to a product would copy x first.
        gram = x @ x.mT
        gram = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        gram.diagonal(dim1=-2, dim2=-1).add_(a)
        x = gram @ x
    return x.mT if matrices.shape[-2] > matrices.shape[-1] else x
