import torch
from torch import Tensor

from discrete_meanflow.data.law import digest
from discrete_meanflow.errors import InputError
from discrete_meanflow.path.base import Paths
from discrete_meanflow.process import OneHotFlow, PathSample
from discrete_meanflow.types import Point, Tokens


class TeacherPairs(Paths):
    """Pairs ``(X_r, x)`` from ODE trajectories of a teacher, as a data set.

    ``X_r`` is a state of the trajectory and x a symbol per position drawn from the law
    ``q_{r,t}(X_r)`` that leads from it to ``X_t``. At (r, t) = (0, 1) a pair is noise and the end
    of its trajectory: the pairs of reflow (Liu et al. 2022, arXiv:2209.03003). Trajectories from
    data end in a record.

    Args:
        process: the process whose flow the teacher integrates.
        starts: ``X_r``, ``(N, D, V)``.
        ends: x, ``(N, D)``.
        times: (r, t) of each pair, ``(N, 2)``.
        observed: which positions were observed, bool ``(N, D)``; None if none ever is.
        from_data: which trajectories were integrated backward from data, bool ``(N,)``; None if
            none was.
        rows: the pairs that are drawn, ``(M,)``; None draws all.
    """

    data_ends, flow_map_ends = False, True
    process: OneHotFlow
    starts: Tensor
    ends: Tensor
    times: Tensor
    observed: Tensor | None
    from_data: Tensor
    rows: Tensor | None

    def __init__(
        self,
        process: OneHotFlow,
        starts: Point,
        ends: Tokens,
        times: Tensor,
        observed: Tensor | None = None,
        from_data: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> None:
        super().__init__()
        masks = ends.shape if observed is None else observed.shape
        if starts.shape != (*ends.shape, process.states) or masks != ends.shape:
            raise InputError(
                f"teacher pairs: starts of shape {tuple(starts.shape)} do not fit ends of shape "
                f"{tuple(ends.shape)} over {process.states} symbols"
            )
        if times.shape != (len(ends), 2) or not bool((times[:, 0] < times[:, 1]).all()):
            raise InputError("teacher pairs: each pair needs two times r < t")
        self.process, self.length = process, ends.shape[1]
        self.conditioned = observed is not None
        tensors = {"starts": starts, "ends": ends, "times": times.float(), "observed": observed}
        none = torch.zeros(len(ends), dtype=torch.bool, device=ends.device)
        tensors |= {"from_data": none if from_data is None else from_data, "rows": rows}
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor, persistent=False)

    @classmethod
    def among(cls, paths: Paths) -> "TeacherPairs":
        """The teacher pairs of a student's training paths."""
        for part in paths.parts:
            if isinstance(part, cls):
                return part
        raise InputError("distillation: needs the student's problem, with teacher pairs")

    def subset(self, chosen: Tensor) -> "TeacherPairs":
        """Draws only the chosen pairs, bool ``(N,)``. It shares their memory."""
        rows = chosen.nonzero()[:, 0]
        if not len(rows):
            raise InputError("teacher pairs: none of them is chosen")
        return TeacherPairs(
            self.process, self.starts, self.ends, self.times, self.observed, self.from_data, rows
        )

    def sample(self, shape: tuple[int, ...], g: torch.Generator, draws: int = 1) -> PathSample:
        """Pairs drawn with replacement."""
        count = len(self.ends) if self.rows is None else len(self.rows)
        pick = torch.randint(count, shape, generator=g, device=g.device)
        pick = pick if self.rows is None else self.rows[pick]
        r, t = (time[..., None] for time in self.times[pick].unbind(-1))
        if self.observed is not None:
            r, t = (torch.where(self.observed[pick], 1.0, time) for time in (r, t))
        x, x1 = self.starts[pick].float(), self.ends[pick].long()
        y = x[..., None, :].expand(*x.shape[:-1], draws, -1)
        return PathSample(x, r, t, y, torch.empty(*x.shape, 0, device=x.device), x1, t)

    def extra_repr(self) -> str:
        drawn = "" if self.rows is None else f", drawn={len(self.rows)}"
        return f"pairs={len(self.ends)}{drawn}, digest={digest(self.ends)}"
