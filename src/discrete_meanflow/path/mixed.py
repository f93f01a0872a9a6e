import torch
from torch.utils._pytree import tree_map

from discrete_meanflow.errors import InputError
from discrete_meanflow.path.base import Paths
from discrete_meanflow.process import PathSample


class MixedPaths(Paths):
    """A batch with equal numbers of paths from each of several laws, concatenated."""

    def __init__(self, *parts: Paths) -> None:
        super().__init__()
        if len({(p.process, p.length, p.conditioned) for p in parts}) != 1:
            raise InputError(
                "mixed paths: all parts must have the same process and length, and all or none "
                "must have observed positions"
            )
        first = parts[0]
        self.process, self.length, self.conditioned = first.process, first.length, first.conditioned
        self.data_ends = all(part.data_ends for part in parts)
        self.flow_map_ends = all(part.flow_map_ends for part in parts)
        self._parts = parts
        for i, part in enumerate(parts):
            self.add_module(str(i), part)

    @property
    def parts(self) -> tuple[Paths, ...]:
        return self._parts

    def sample(self, shape: tuple[int, ...], g: torch.Generator, draws: int = 1) -> PathSample:
        *outer, batch = shape
        batches = [
            part.sample((*outer, size), g, draws)
            for part, size in zip(self.parts, part_sizes(batch, len(self.parts)), strict=True)
        ]
        return tree_map(lambda *tensors: torch.cat(tensors, len(outer)), *batches)


def part_sizes(batch: int, parts: int) -> list[int]:
    """Numbers of paths of each part of a batch: equal up to one."""
    return [(batch + i) // parts for i in range(parts)]
