import math

import torch
from torch import Tensor

from discrete_meanflow.ctmc.generator import ConstantGenerator, RateGenerator
from discrete_meanflow.ctmc.transition import Propagator
from discrete_meanflow.process.base import PathSample, Process, check_initial
from discrete_meanflow.simplex import categorical, quantile, spread_levels
from discrete_meanflow.times import TimePair
from discrete_meanflow.types import Probs, State, Times


class ChainProcess(Process):
    """A finite chain with a known generator: its kernel is exact, its draws too.

    With ``stratified`` draws every x_t still has the law ``K_{r,t}(., x_r)``, but those of a
    batch are spread over it instead of independent: the estimators stay unbiased and their
    batch means vary far less.
    """

    initial: Tensor
    columns: Tensor

    def __init__(
        self, generator: RateGenerator, initial: Tensor | None = None, stratified: bool = False
    ) -> None:
        super().__init__()
        self.stratified = stratified
        self.generator = generator
        self.states = generator.states
        self.propagator = Propagator(generator)
        p_0 = check_initial(initial, self.states)
        self.register_buffer("initial", p_0, persistent=False)
        # u transposed: a row per start state, so that u_t(., y) is a row lookup.
        columns = torch.empty(0)
        if isinstance(generator, ConstantGenerator):
            columns = generator.matrix.T.contiguous()
        self.register_buffer("columns", columns, persistent=False)

    def source(self, shape: tuple[int, ...], g: torch.Generator) -> State:
        return categorical(self.initial, g, math.prod(shape)).view(shape)

    def law(self, x: State, r: Times, t: Times) -> Probs:
        """``K_{r,t}(., x)``: shape ``(*batch, n)``, float64."""
        self.propagator.to(x.device)
        return self.propagator.law(x, r, t)

    def path(self, times: TimePair, g: torch.Generator, draws: int = 1) -> PathSample:
        r, t = times.r, times.t
        x_0 = self.source(tuple(r.shape), g)
        x = categorical(self.law(x_0, torch.zeros_like(r), r), g)
        law = self.law(x, r, t)
        if self.stratified:
            # Neighbours are paths with the same start and nearly the same length.
            y = quantile(law, spread_levels(2 * x + (t - r), draws, g))
        else:
            y = categorical(law, g, draws)
        none = x.new_empty(*x.shape, 0)
        return PathSample(x, r.float(), t.float(), y, law.float(), none, t.float())

    def rates_at(self, path: PathSample) -> Probs:
        return self.rate(path.y, path.t[..., None].expand(path.y.shape))

    def rate(self, y: State, t: Times) -> Probs:
        """``u_t(., y)``, the column of the generator: shape ``(*batch, n)``, dtype of t."""
        if self.columns.numel():
            return self.columns.to(t.dtype)[y]
        column = y[..., None, None].expand(*y.shape, self.states, 1)
        return self.generator.at(t).gather(-1, column)[..., 0].to(t.dtype)

    def flow(self, p: Probs, t: Times) -> Probs:
        """``u_t p``: how fast a law p moves at time t, shape ``(*batch, n)``."""
        if self.columns.numel():
            return p @ self.columns.to(p.dtype)
        return (self.generator.at(t).to(p.dtype) @ p[..., None])[..., 0]

    def extra_repr(self) -> str:
        initial = [round(p, 6) for p in self.initial.tolist()]
        return f"{self.generator}, initial={initial}, stratified={self.stratified}"
