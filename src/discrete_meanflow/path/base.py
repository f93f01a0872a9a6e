from abc import ABC, abstractmethod

import torch
from torch import nn

from discrete_meanflow.process import PathSample, Process


class Paths(nn.Module, ABC):
    """A law of training batches."""

    process: Process
    length: int = 1  # positions of a sequence; a chain has one
    conditioned: bool = False  # whether some positions are observed
    data_ends: bool = True  # whether x1 is data, given x_r
    flow_map_ends: bool = False  # whether x1 follows the flow map's own law q_{r,t}(x_r)

    @property
    def parts(self) -> tuple["Paths", ...]:
        """The laws of the parts of a batch, in order; a mixture has several."""
        return (self,)

    @abstractmethod
    def sample(self, shape: tuple[int, ...], g: torch.Generator, draws: int = 1) -> PathSample:
        """Draw a batch of the given shape, with ``draws`` samples of x_t per path."""
