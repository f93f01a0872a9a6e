"""Several seeds of one problem, trained as one: parameters stacked on a leading axis.

A small network leaves most of a machine idle. Stacked, three seeds cost little more than
one, and none knows of the others: each has its own parameters, data, gradient norm.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils._pytree import tree_map

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel, Kernel
from discrete_meanflow.objective import Objective
from discrete_meanflow.process import PathSample
from discrete_meanflow.simplex import expand_like
from discrete_meanflow.training.problem import Problem


class Step(nn.Module):
    """``path -> loss``: all that is differentiated, in one module's forward."""

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
    def states(self) -> str:
        """What its kernels take: of one network, soft and hard states cannot be told apart."""
        return _states(self.kernels[0])

    def _check_constants(self) -> None:
        """What is not trained is shared by all seeds, so it must not differ between them."""
        constants = [dict([*m.named_parameters(), *m.named_buffers()]) for m in self.kernels]
        for name, first in constants[0].items():
            if name not in self.parameters and any(
                not torch.equal(first, others[name]) for others in constants[1:]
            ):
                raise InputError(
                    f"'{name}' is not trained but differs between seeds: make it the same for all, "
                    "or a parameter that is trained"
                )

    def gradient(
        self, parameters: dict[str, Tensor], ema: dict[str, Tensor], path: PathSample
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Losses ``(seeds,)`` and their gradients.

        A pure function of tensors, made to be traced. ``ema`` are the teacher's parameters,
        empty if there is none.
        """
        leaves = {name: p.detach().requires_grad_() for name, p in parameters.items()}

        def loss(stacked: dict[str, Tensor], ema: dict[str, Tensor], path: PathSample) -> Tensor:
            named = {f"kernel.{name}": p for name, p in stacked.items()}
            named |= {f"teacher.{name}": p for name, p in ema.items()}
            return functional_call(self.step, named, (path,))

        with torch.enable_grad():
            if len(path.x) == 1:  # plain products are faster than stacks of one
                losses = loss(*tree_map(lambda a: a[0], (leaves, ema, path)))[None]
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
        """The kernels, one per seed, with the stacked parameters given."""
        for i, member in enumerate(self.kernels):
            for name, p in member.named_parameters():
                if name in parameters:
                    p.copy_(parameters[name][i])
        return self.kernels

    @torch.no_grad()
    def start_from(self, kernels: Sequence[Kernel]) -> None:
        """Begin with the parameters of kernels trained before, one per seed."""
        if len(kernels) != len(self.kernels):
            raise InputError(
                f"trainer: {len(self.kernels)} seeds need as many kernels to start from, "
                f"got {len(kernels)}"
            )
        for i, kernel in enumerate(kernels):
            if _states(kernel) != self.states:
                raise InputError(
                    f"trainer: the kernel to start from is of {_states(kernel)} states, this is "
                    f"for {self.states}"
                )
            given = dict(kernel.named_parameters())
            for name, stacked in self.parameters.items():
                if name not in given or given[name].shape != stacked[i].shape:
                    raise InputError(f"trainer: the kernel to start from has another {name}")
                stacked[i].copy_(given[name])


def _states(kernel: Kernel) -> str:
    return "soft" if isinstance(kernel, FlowMapKernel) else "hard"


def clipped(gradients: dict[str, Tensor], clip: float) -> dict[str, Tensor]:
    """Gradients scaled, seed by seed, to norm at most ``clip``."""
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
    scale = (clip / (norms + 1e-6)).clamp(max=1)
    # Contiguous, because the fused AdamW walks parameter and gradient memory in step and
    # would silently pair the wrong entries of a transposed gradient.
    return {name: (g * expand_like(scale, g)).contiguous() for name, g in gradients.items()}
