import torch
from torch import Tensor

from discrete_meanflow.data import Sequences
from discrete_meanflow.data.base import digest
from discrete_meanflow.errors import InputError
from discrete_meanflow.process.base import PathSample
from discrete_meanflow.process.conditioning import ObservedPositions
from discrete_meanflow.process.one_hot_flow import OneHotFlow
from discrete_meanflow.times import TimePair
from discrete_meanflow.types import Point, State


class Coupled(OneHotFlow):
    """Soft paths in the first half of each batch; couples in the second.

    A couple is a state ``X_r`` of a kernel of many short steps, and a symbol drawn from the law
    ``q_{r,t}(X_r)`` that leads from it to ``X_t``. At (0, 1) that is noise and where it is carried.
    Drawn independently, noise tells nothing of data, and the way in one step must be pieced
    together; a couple shows it whole.
    """

    starts: Tensor
    ends: Tensor
    held: Tensor
    pairs: Tensor

    def __init__(
        self,
        data: Sequences,
        starts: Point,
        ends: State,
        held: Tensor | None = None,
        conditioning: float | ObservedPositions = 0.0,
        pairs: Tensor | None = None,
        minibatch_ot: int = 0,
    ) -> None:
        """starts: ``(N, D, V)``; ends: ``(N, D)``; held: which positions were clamped; pairs:
        (r, t) of each, ``(N, 2)``, by default (0, 1); minibatch_ot: of the soft paths."""
        super().__init__(data, conditioning, minibatch_ot)
        held = torch.zeros_like(ends, dtype=torch.bool) if held is None else held
        if bool(held.any()) and not self.conditioning.share:
            raise InputError("couples: some positions are held, and the process clamps none")
        if starts.shape != (*ends.shape, self.states) or held.shape != ends.shape:
            raise InputError(
                f"couples: starts of shape {tuple(starts.shape)} and ends of {tuple(ends.shape)} "
                f"do not belong together over {self.states} symbols"
            )
        if pairs is None:
            pairs = torch.tensor([[0.0, 1.0]], device=ends.device).expand(len(ends), 2)
        if pairs.shape != (len(ends), 2) or not bool((pairs[:, 0] < pairs[:, 1]).all()):
            raise InputError("couples: each needs two times r < t")
        tensors = {"starts": starts, "ends": ends, "held": held, "pairs": pairs.float()}
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor, persistent=False)

    def path(self, times: TimePair, g: torch.Generator, draws: int = 1) -> PathSample:
        *shape, batch = times.r.shape
        half, axis = batch // 2, len(shape)
        between = None if times.s is None else times.s[..., :half]
        soft = super().path(TimePair(times.r[..., :half], times.t[..., :half], between), g, draws)
        pick = torch.randint(len(self.ends), (*shape, batch - half), generator=g, device=g.device)
        # One time for all positions where none is clamped, as soft paths have it.
        held = self.held[pick][..., : soft.r.shape[-1]]
        r, t = (torch.where(held, 1.0, s[..., None]) for s in self.pairs[pick].unbind(-1))
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
