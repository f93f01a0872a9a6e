from collections.abc import Sequence

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.types import State


class KernelSampler:
    """Carry states along a grid: ``X_{t_{i+1}} ~ K_theta(., X_{t_i}, t_i, t_{i+1})``.

    The default grid is (0, 1): one forward pass, one draw.
    """

    def __init__(self, kernel: Kernel, grid: Sequence[float] = (0.0, 1.0)) -> None:
        self.kernel = kernel
        self.grid = [float(t) for t in grid]
        if len(self.grid) < 2:
            raise InputError("sampler: the time grid needs at least two times, as in (0, 1)")
        if any(not 0 <= t <= 1 for t in self.grid):
            raise InputError(f"sampler: times must lie in [0, 1], got {self.grid}")
        if any(a >= b for a, b in zip(self.grid, self.grid[1:], strict=False)):
            raise InputError(f"sampler: times must increase, got {self.grid}")

    @classmethod
    def steps(cls, kernel: Kernel, k: int) -> "KernelSampler":
        """k equal steps from 0 to 1."""
        if k < 1:
            raise InputError(f"sampler: needs at least one step, got {k}")
        return cls(kernel, [i / k for i in range(k)] + [1.0])

    @torch.no_grad()
    def sample(self, x: State, g: torch.Generator, clamped: Tensor | None = None) -> State:
        """Carry the states x from the first time of the grid to the last.

        Positions that are ``clamped`` (of the shape of x) have r = t = 1: they stay, and the
        others are drawn given them.
        """
        self._check(x)
        positions = x.shape[:-1] if x.is_floating_point() else x.shape
        dtype = self.kernel.home.dtype
        for r, t in zip(self.grid, self.grid[1:], strict=False):
            r_x, t_x = (torch.full(positions, s, dtype=dtype, device=x.device) for s in (r, t))
            if clamped is not None:
                r_x, t_x = r_x.masked_fill(clamped, 1), t_x.masked_fill(clamped, 1)
            x = self.kernel.transport(x, self.kernel(x, r_x, t_x), r_x, t_x, g)
        return self.kernel.decode(x, g) if self.grid[-1] == 1 else x

    def _check(self, x: State) -> None:
        self.kernel.check_start(x)
        soft = x.is_floating_point()
        for module in self.kernel.network.modules():
            states, length = (getattr(module, what, None) for what in ("states", "length"))
            if isinstance(states, int) and x.numel() and not soft and int(x.max()) >= states:
                raise InputError(
                    f"sampler: start state {int(x.max())} is none of the kernel's {states}"
                )
            found = x.shape[-2:-1] if soft else x.shape[-1:]
            if isinstance(length, int) and found != (length,):
                raise InputError(
                    f"sampler: sequences must have length {length}, got shape {tuple(x.shape)}"
                )
