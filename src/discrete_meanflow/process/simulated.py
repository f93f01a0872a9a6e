import math

import torch
from torch import Tensor

from discrete_meanflow.ctmc.simulate import JumpRates, simulate
from discrete_meanflow.errors import InputError
from discrete_meanflow.process.base import PathSample, Process, check_initial
from discrete_meanflow.simplex import categorical
from discrete_meanflow.state import Discrete
from discrete_meanflow.times import TimePair
from discrete_meanflow.types import Probs, Times, Tokens


class SimulatedProcess(Process):
    """A chain given by its jump rates: paths are simulated, no matrix is stored.

    The kernel sees the window of states ``0 .. states - 1``. A path that ends outside it raises
    an error: choose a window that contains the process.
    """

    initial: Tensor

    def __init__(self, rates: JumpRates, states: int, initial: Tensor | None = None) -> None:
        super().__init__()
        self.rates, self.space = rates, Discrete(states)
        self.register_buffer("initial", check_initial(initial, states), persistent=False)

    def source(self, shape: tuple[int, ...], g: torch.Generator) -> Tokens:
        return categorical(self.initial, g, math.prod(shape)).view(shape)

    def path(self, times: TimePair, g: torch.Generator, draws: int = 1) -> PathSample:
        """Simulate ``x_r`` from the source and ``draws`` samples of ``x_t`` from x_r."""
        r, t = (s.reshape(-1) for s in (times.r, times.t))
        x = self.simulate(self.source(tuple(r.shape), g), torch.zeros_like(r), r, g)
        x_m, r_m, t_m = (s[:, None].expand(-1, draws).reshape(-1) for s in (x, r, t))
        y = self.simulate(x_m, r_m, t_m, g)
        shape = times.r.shape
        return PathSample(
            x.view(shape),
            times.r.float(),
            times.t.float(),
            y.view(*shape, draws),
            torch.empty(*shape, 0, device=x.device),
            x.new_empty(*shape, 0),
            times.t.float(),
        )

    def simulate(self, x: Tokens, r: Times, t: Times, g: torch.Generator) -> Tokens:
        """``X_t`` given ``X_r = x``, all ``(batch,)``."""
        y = simulate(self.rates, x, r, t, g)
        if y.numel() and not 0 <= int(y.min()) <= int(y.max()) < self.states:
            raise InputError(
                f"simulated process: paths end in states {int(y.min())} to {int(y.max())}, but the "
                f"kernel has {self.states} states; increase them"
            )
        return y

    def rates_at(self, path: PathSample) -> Probs:
        return self.rate(path.y, path.t[..., None].expand(path.y.shape))

    def rate(self, y: Tokens, t: Times) -> Probs:
        """``u_t(., y)`` within the window: shape ``(*batch, n)``, dtype of t."""
        targets, rate = self.rates.jumps(y, t)
        rate = torch.where(targets < self.states, rate, torch.zeros_like(rate))
        empty = torch.zeros(*y.shape, self.states, dtype=t.dtype, device=t.device)
        arrivals = empty.scatter_add(-1, targets.clamp(max=self.states - 1), rate.to(t.dtype))
        return arrivals.scatter_add(-1, y[..., None], -rate.sum(-1, keepdim=True).to(t.dtype))

    def extra_repr(self) -> str:
        start = {x: round(p, 6) for x, p in enumerate(self.initial.tolist()) if p > 0}
        return f"{self.rates!r}, states={self.states}, initial={start}"
