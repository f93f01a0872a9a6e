import torch
from torch import Tensor

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.kernel import FlowMapKernel
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler.ode import ODESampler, clock_exponent
from discrete_meanflow.types import Point, State, Times, Tokens

# Over 3 to 400 symbols, an exact flow takes x_0.9 to the record: its symbols are certain. From 0.8
# up to a seventh of the sequences end elsewhere; later, the noise is lost in the error of q.
LATE = 0.9


class TwoWayODE(ODESampler):
    """Integrate the diagonal's ODE backward in some sequences and forward in the others.

    Backward trajectories lead from a state at time 0.9 to noise, in k steps of the same method, on
    a grid halfway between even times and the decoding clock. The directions share a batch, so the
    network has the same shapes whatever their numbers. ``trajectory`` yields the states.

    Args:
        kernel: the kernel.
        k: number of steps.
        backward: which sequences go backward, bool ``(B,)``.
    """

    def __init__(self, kernel: FlowMapKernel, k: int, backward: Tensor) -> None:
        super().__init__(kernel, k)
        self.backward, self.backward_grid = backward, backward_grid(kernel.states, k)

    def start(self, process: OneHotFlow, x1: Tokens, observed: Tensor, g: torch.Generator) -> Point:
        """The starts: noise, or for backward trajectories the records x1 with late noise."""
        x = process.space.observe(process.source(tuple(x1.shape), g), x1, observed)
        if bool(self.backward.any()):
            late = torch.where(observed, 1.0, LATE)[self.backward]
            x[self.backward] = process.corrupt(x1[self.backward], late, g)
        return x

    def grid_times(self, i: int, x: State, observed: Tensor | None) -> Times:
        forward = super().grid_times(i, x, observed)
        backward = self.times(x, self.backward_grid[self.step_count - i], observed)
        return torch.where(self.backward[:, None], backward, forward)

    def extrapolation(self, i: int) -> Tensor:
        weights = torch.where(self.backward, 0.5, super().extrapolation(i))
        return weights[:, None, None]

    def places(self, i: int) -> Tensor:
        """The place on the grid after i steps, ``(B,)``: 0 is noise, k the end."""
        return torch.where(self.backward, self.step_count - i, i)

    def place_times(self, places: Tensor) -> Times:
        """The times of places ``(B, n)``. Place k is time 1: a backward trajectory's record."""
        forward, backward = (
            torch.tensor(grid, dtype=torch.float32, device=places.device)
            for grid in (self.grid, [*self.backward_grid[:-1], 1.0])
        )
        return torch.where(self.backward[:, None], backward[places], forward[places])


def backward_grid(states: int, k: int) -> list[float]:
    """Increasing times from 0 to ``LATE``.

    The clock alone leaves the last steps too long, where the record is decided. Even times leave
    those too long in which most tokens of a large alphabet are.
    """
    even = torch.arange(k, dtype=torch.float64) / k
    clock = DecodingClock(states).inverse(even ** clock_exponent(states))
    return [*((LATE * even + clock.clamp(max=LATE)) / 2).tolist(), LATE]
