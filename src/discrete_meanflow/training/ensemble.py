"""Several seeds of one problem trained as one by vmap: parameters stacked on a leading axis.

A small network leaves most of a machine idle. Stacked, three seeds cost little more than one.
They stay independent: each has its own parameters, data and gradient norm.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils._pytree import tree_map

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective import Objective
from discrete_meanflow.process import PathSample
from discrete_meanflow.simplex import expand_like
from discrete_meanflow.state import StateSpace
from discrete_meanflow.training.problem import Problem


class Step(nn.Module):
    """``path -> loss``: everything that is differentiated, in one module's forward."""

    def __init__(
        self, kernel: Kernel, objective: Objective, teacher: Kernel | None, bf16: bool
    ) -> None:
        super().__init__()
        self.kernel, self.objective, self.teacher, self.bf16 = kernel, objective, teacher, bf16

    def forward(self, path: PathSample) -> Tensor:
        with torch.autocast(path.t.device.type, torch.bfloat16, enabled=self.bf16):
            return self.objective(self.kernel, path, self.teacher)


class SeedEnsemble:
    """One step for all seeds. ``parameters[name]`` has shape ``(seeds, *shape)``."""

    def __init__(
        self,
        problem: Problem,
        seeds: Sequence[int],
        device: torch.device,
        with_ema: bool = False,
        bf16: bool = False,
    ) -> None:
        self.kernels = [problem.build(seed).to(device) for seed in seeds]
        self.objective = problem.objective.to(device)
        teacher = problem.build(0).to(device).requires_grad_(False) if with_ema else None
        self.step = Step(self.kernels[0], self.objective, teacher, bf16)
        states = [dict(member.named_parameters()) for member in self.kernels]
        self.parameters = {
            name: torch.stack([state[name].detach() for state in states])
            for name, first in states[0].items()
            if first.requires_grad
        }
        self._check_constants()

    @property
    def space(self) -> StateSpace:
        return self.kernels[0].space

    def _check_constants(self) -> None:
        """All seeds share what is not trained, so it must not differ between them."""
        constants = [dict([*m.named_parameters(), *m.named_buffers()]) for m in self.kernels]
        for name, first in constants[0].items():
            if name not in self.parameters and any(
                not torch.equal(first, others[name]) for others in constants[1:]
            ):
                raise InputError(
                    f"'{name}' is not trained but differs between seeds: use the same value for "
                    "all, or make it a trained parameter"
                )

    def gradient(
        self, parameters: dict[str, Tensor], ema: dict[str, Tensor], path: PathSample
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Losses ``(seeds,)`` and their gradients.

        A pure function of tensors, so that it can be traced. ``ema`` holds the teacher's
        parameters; it is empty if there is no teacher.
        """
        leaves = {name: p.detach().requires_grad_() for name, p in parameters.items()}

        def loss(stacked: dict[str, Tensor], ema: dict[str, Tensor], path: PathSample) -> Tensor:
            named = {f"kernel.{name}": p for name, p in stacked.items()}
            named |= {f"teacher.{name}": p for name, p in ema.items()}
            return functional_call(self.step, named, (path,))

        with torch.enable_grad():
            if len(path.x) == 1:  # plain products are faster than stacked ones
                # Views: the backward pass of an index would copy each gradient.
                losses = loss(*tree_map(lambda a: a.squeeze(0), (leaves, ema, path)))[None]
            else:
                losses = vmap(loss)(leaves, ema, path)
            gradients = torch.autograd.grad(losses.sum(), list(leaves.values()))
        return losses.detach(), dict(zip(leaves, gradients, strict=True))

    def clipped_gradient(
        self,
        parameters: dict[str, Tensor],
        ema: dict[str, Tensor],
        path: PathSample,
        clip: float,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Losses and gradients, each seed's scaled to norm at most ``clip``."""
        losses, gradients = self.gradient(parameters, ema, path)
        return losses, clipped(gradients, clip)

    @torch.no_grad()
    def members(self, parameters: dict[str, Tensor]) -> list[Kernel]:
        """The kernels, one per seed, with these stacked parameters."""
        for i, member in enumerate(self.kernels):
            for name, p in member.named_parameters():
                if name in parameters:
                    p.copy_(parameters[name][i])
        return self.kernels

    @torch.no_grad()
    def start_from(self, kernels: Sequence[Kernel]) -> None:
        """Take over the parameters of trained kernels, one per seed."""
        if len(kernels) != len(self.kernels):
            raise InputError(
                f"trainer: {len(self.kernels)} seeds need as many kernels to start from, "
                f"got {len(kernels)}"
            )
        for i, kernel in enumerate(kernels):
            if kernel.space != self.space:
                raise InputError(
                    f"trainer: the kernel to start from has {kernel.space}, this one {self.space}"
                )
            weights = dict(kernel.named_parameters())
            for name, stacked in self.parameters.items():
                if name not in weights or weights[name].shape != stacked[i].shape:
                    raise InputError(f"trainer: the kernel to start from has another '{name}'")
                stacked[i].copy_(weights[name])


def clipped(gradients: dict[str, Tensor], clip: float) -> dict[str, Tensor]:
    """Scale the gradients of each seed to norm at most ``clip``."""
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
    scale = (clip / (norms + 1e-6)).clamp(max=1)
    # Contiguous: the fused AdamW walks through parameters and gradients in memory order and
    # would silently pair the wrong entries of a transposed gradient.
    return {name: (g * expand_like(scale, g)).contiguous() for name, g in gradients.items()}
