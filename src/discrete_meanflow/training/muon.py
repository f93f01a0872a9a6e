"""Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon): orthogonalised momentum."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
ROUNDS = 5
QUINTIC = (3.4445, -4.7750, 2.0315)  # drives singular values to about 1, small ones fast
LIKE_ADAM = 0.2  # root mean square of an AdamW step, in learning rates


class Muon(torch.optim.AdamW):
    """AdamW, and for ``matrices`` ``W <- (1 - lr wd) W - ratio lr 0.2 sqrt(n) orthogonal(B)``.

    B is the momentum of the gradient, cut into squares of side n, each orthogonalised: updates have
    equal size in all singular directions. The squares of all matrices and seeds go through one
    stack of products. ``torch.optim.Muon`` handles matrices one by one and takes the learning rate
    as a number; a captured CUDA graph needs neither.

    Args:
        groups: AdamW's parameter groups. Each has its own learning rate, a tensor on its device.
        matrices: the parameters with a matrix update, each ``(seeds, rows, columns)``.
        ratio: their learning rate over that of the others in their group.
        adam: further arguments of AdamW.
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        matrices: Iterable[Tensor],
        ratio: float,
        **adam: Any,
    ) -> None:
        super().__init__(groups, **adam)
        self.matrices, self.ratio = list(matrices), ratio
        chosen = set(map(id, self.matrices))
        self.matrices_of = [
            [p for p in group["params"] if id(p) in chosen] for group in self.param_groups
        ]
        # Half precision halves the memory traffic on a GPU; on a CPU it is slow.
        self.halved = any(p.is_cuda for p in self.matrices)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        if self.matrices:
            self._move_matrices()
        super().step()

    def _move_matrices(self) -> None:
        """Update the matrices; those of one shape share their products, to save launches."""
        gradients = []
        for p in self.matrices:
            assert p.grad is not None
            gradients.append(p.grad)
            p.grad = None  # so that AdamW skips it
            if "momentum" not in self.state[p]:
                self.state[p]["momentum"] = torch.zeros_like(p)
        momenta = [self.state[p]["momentum"] for p in self.matrices]
        torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
        nesterov = torch._foreach_lerp(gradients, momenta, MOMENTUM)
        direction = dict(zip(map(id, self.matrices), nesterov, strict=True))
        for group, matrices in zip(self.param_groups, self.matrices_of, strict=True):
            if not matrices:
                continue
            torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for p in matrices:
                squares = cut(p)
                by_shape[squares.shape[3:]].append((squares, cut(direction[id(p)])))
            for shape, pairs in by_shape.items():
                self._move(pairs, group["lr"] * (self.ratio * LIKE_ADAM * max(shape) ** 0.5))

    def _move(self, pairs: Sequence[tuple[Tensor, Tensor]], rate: Tensor) -> None:
        """``W <- W - rate orthogonal(B)`` of all ``(W, B)``, each ``(seeds, k, l, *shape)``."""
        first = pairs[0][1]
        counts = [momentum.shape[:3].numel() for _, momentum in pairs]
        dtype = torch.bfloat16 if self.halved else first.dtype
        stack = first.new_empty(sum(counts), *first.shape[3:], dtype=dtype)
        for place, (_, momentum) in zip(stack.split(counts), pairs, strict=True):
            place.view(momentum.shape).copy_(momentum)
        for step, (matrix, _) in zip(orthogonal(stack).split(counts), pairs, strict=True):
            matrix.addcmul_(step.reshape(matrix.shape), rate, value=-1)


def inner_matrices(module: nn.Module) -> set[str]:
    """The names of the matrices in repeated layers, without the first and last layer."""
    return {
        f"{stack}.{name}.weight"
        for stack, layers in module.named_modules()
        if isinstance(layers, nn.ModuleList)
        for name, layer in layers.named_modules()
        if isinstance(layer, nn.Linear)
    }


def cut(matrices: Tensor) -> Tensor:
    """View ``(seeds, rows, columns)`` as squares ``(seeds, k, l, n, n)``, or as one block if n does
    not divide both sides."""
    rows, columns = matrices.shape[1:]
    n = min(rows, columns)
    if max(rows, columns) % n:
        return matrices[:, None, None]
    return matrices.unflatten(2, (-1, n)).unflatten(1, (-1, n)).transpose(2, 3)


def orthogonal(matrices: Tensor) -> Tensor:
    """Approximately ``U V^T`` of each ``U S V^T``, by Newton-Schulz iterations."""
    x = matrices.mT if matrices.shape[-2] > matrices.shape[-1] else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = QUINTIC
    for _ in range(ROUNDS):
        # x <- (a I + b G + c G^2) x; adding a x to a product would copy x.
        gram = x @ x.mT
        gram = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        gram.diagonal(dim1=-2, dim2=-1).add_(a)
        x = gram @ x
    return x.mT if matrices.shape[-2] > matrices.shape[-1] else x
