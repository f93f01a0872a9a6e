import torch
from torch import Tensor

from discrete_meanflow.data import Sequences
from discrete_meanflow.data.base import digest
from discrete_meanflow.errors import InputError
from discrete_meanflow.process.base import PathSample
from discrete_meanflow.process.clamps import Clamps
from discrete_meanflow.process.soft import Soft
from discrete_meanflow.times import TimePair
from discrete_meanflow.types import Point, State


class Coupled(Soft):
    """Soft paths in the first half of each batch; couples (z, x1) in the second.

    A couple is noise and where a kernel of many short steps carries it. Drawn independently,
    noise tells nothing of data, and the way from 0 to 1 in one step must be pieced together;
    a couple shows it whole: r = 0, t = 1, and x1 is certain.
    """

    starts: Tensor
    ends: Tensor
    held: Tensor

    def __init__(
        self,
        data: Sequences,
        starts: Point,
        ends: State,
        held: Tensor | None = None,
        clamps: float | Clamps = 0.0,
    ) -> None:
        """starts: ``(N, D, V)``; ends: ``(N, D)``; held: which positions were clamped."""
        super().__init__(data, clamps)
        held = torch.zeros_like(ends, dtype=torch.bool) if held is None else held
        if bool(held.any()) and not self.clamps.share:
            raise InputError("couples: some positions are held, and the process clamps none")
        if starts.shape != (*ends.shape, self.states) or held.shape != ends.shape:
            raise InputError(
                f"couples: starts of shape {tuple(starts.shape)} and ends of {tuple(ends.shape)} "
                f"do not belong together over {self.states} symbols"
            )
        for name, tensor in (("starts", starts), ("ends", ends), ("held", held)):
            self.register_buffer(name, tensor, persistent=False)

    def path(self, times: TimePair, g: torch.Generator, draws: int = 1) -> PathSample:
        *shape, batch = times.r.shape
        half, axis = batch // 2, len(shape)
        between = None if times.s is None else times.s[..., :half]
        soft = super().path(TimePair(times.r[..., :half], times.t[..., :half], between), g, draws)
        pick = torch.randint(len(self.ends), (*shape, batch - half), generator=g, device=g.device)
        # One time for all positions where none is clamped, as soft paths have it.
        r = self.held[pick].float()[..., : soft.r.shape[-1]]
        t = torch.ones_like(r)
        couple = PathSample(
            self.starts[pick].to(soft.x.dtype),
            r,
            t,
            soft.y.new_empty(*pick.shape, *soft.y.shape[axis + 1 :]),
            soft.law.new_empty(*pick.shape, *soft.law.shape[axis + 1 :]),
            self.ends[pick].long(),
            t,
        )
        return PathSample(*(torch.cat(both, axis) for both in zip(soft, couple, strict=True)))

    def extra_repr(self) -> str:
        couples = f"couples={len(self.ends)}, digest={digest(self.ends)}"
        return ", ".join(filter(None, (super().extra_repr(), couples)))
