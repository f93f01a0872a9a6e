from collections import deque
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.sampler.logits import LogitProcessor
from discrete_meanflow.types import State


class KernelSampler:
    """Carry states along a grid: ``X_{t_{i+1}} ~ K_theta(., X_{t_i}, t_i, t_{i+1})``.

    The default grid is (0, 1): one forward pass, one draw. ``adjust`` are applied to the logits
    of each step, in order: ``temperature(0.8)``, ``top_p(0.9)``. ``guidance`` w other than 1 takes
    ``(1 - w) free + w given`` for the logits, where ``free`` knows nothing of clamped positions:
    above 1, what is generated is truer to them. Soft states that have arrived become their
    likeliest symbols; with ``drawn`` (the default where ``adjust`` is given) draws from their laws.
    """

    def __init__(
        self,
        kernel: Kernel,
        grid: Sequence[float] = (0.0, 1.0),
        logit_processors: Sequence[LogitProcessor] = (),
        guidance: float = 1.0,
        drawn: bool | None = None,
    ) -> None:
        self.kernel, self.logit_processors, self.guidance = kernel, logit_processors, guidance
        self.drawn = bool(logit_processors) if drawn is None else drawn
        self.grid = [float(t) for t in grid]
        if len(self.grid) < 2:
            raise InputError("sampler: the time grid needs at least two times, as in (0, 1)")
        if any(not 0 <= t <= 1 for t in self.grid):
            raise InputError(f"sampler: times must lie in [0, 1], got {self.grid}")
        if any(a >= b for a, b in zip(self.grid, self.grid[1:], strict=False)):
            raise InputError(f"sampler: times must increase, got {self.grid}")

    @classmethod
    def steps(
        cls,
        kernel: Kernel,
        k: int,
        logit_processors: Sequence[LogitProcessor] = (),
        guidance: float = 1.0,
        drawn: bool | None = None,
    ) -> "KernelSampler":
        """k steps from 0 to 1: equal for hard states, equal on the clock tau for soft ones."""
        if k < 1:
            raise InputError(f"sampler: needs at least one step, got {k}")
        return cls(kernel, [*kernel.even_grid(k), 1.0], logit_processors, guidance, drawn)

    @torch.no_grad()
    def sample(
        self,
        x: State,
        g: torch.Generator,
        clamped: Tensor | None = None,
        free: State | None = None,
    ) -> State:
        """Carry the states x from the first time of the grid to the last.

        Positions that are ``clamped`` (bool, ``(*batch, D)``) have r = t = 1: they stay, and the
        others are drawn given them. Guidance needs ``free``, the same start without clamps:
        ``x = process.hold(free, tokens, clamped)``.
        """
        end = deque(self.trajectory(x, g, clamped, free), maxlen=1)[0]
        return self.kernel.decode(end, g if self.drawn else None) if self.grid[-1] == 1 else end

    @torch.no_grad()
    def trajectory(
        self,
        x: State,
        g: torch.Generator,
        clamped: Tensor | None = None,
        free: State | None = None,
    ) -> Iterator[State]:
        """The states at the times of the grid, after the first."""
        check_start(self.kernel, x)
        self._check_clamps(x, clamped, free)
        for r, t in zip(self.grid, self.grid[1:], strict=False):
            times = [times_at(self.kernel, x, s, clamped) for s in (r, t)]
            logits = self.kernel(x, *times)
            if self.guidance != 1 and free is not None and clamped is not None:
                # What is not clamped is common to both; the rest goes its own way.
                free = torch.where(clamped[..., None] if soft(x) else clamped, free, x)
                anywhere = [times_at(self.kernel, x, s, None) for s in (r, t)]
                loose = self.kernel(free, *anywhere)
                free = self.kernel.transport(free, loose, anywhere[0], anywhere[1], g)
                logits = loose + self.guidance * (logits - loose)
            for change in self.logit_processors:
                logits = change(logits)
            x = self.kernel.transport(x, logits, times[0], times[1], g)
            yield x

    def _check_clamps(self, x: State, clamped: Tensor | None, free: State | None) -> None:
        if self.guidance != 1 and (free is None or clamped is None):
            raise InputError("sampler: guidance needs clamps, and the start without them: free=...")
        if clamped is not None and (clamped.dtype, clamped.shape) != (torch.bool, positions(x)):
            raise InputError(
                f"sampler: clamped must be bool of shape {tuple(positions(x))}, got "
                f"{clamped.dtype} of shape {tuple(clamped.shape)}"
            )


def times_at(kernel: Kernel, x: State, time: float, clamped: Tensor | None) -> Tensor:
    """The time of each position: 1 where it is clamped. Soft ones share it if none is."""
    shape = (*x.shape[:-2], 1) if soft(x) and clamped is None else positions(x)
    times = torch.full(shape, time, dtype=kernel.home.dtype, device=x.device)
    return times if clamped is None else times.masked_fill(clamped, 1)


def soft(x: State) -> bool:
    """Whether a state is made of points."""
    return x.is_floating_point()


def positions(x: State) -> torch.Size:
    """The shape of a state's positions, points or symbols."""
    return x.shape[:-1] if soft(x) else x.shape


def check_start(kernel: Kernel, x: State) -> None:
    """Refuse what the kernel or its network cannot start from."""
    kernel.check_start(x)
    for module in kernel.network.modules():
        states, length = (getattr(module, what, None) for what in ("states", "length"))
        if isinstance(states, int) and x.numel() and not soft(x) and int(x.max()) >= states:
            raise InputError(
                f"sampler: start state {int(x.max())} is none of the kernel's {states}"
            )
        if isinstance(length, int) and positions(x)[-1:] != (length,):
            raise InputError(
                f"sampler: sequences must have length {length}, got shape {tuple(x.shape)}"
            )
