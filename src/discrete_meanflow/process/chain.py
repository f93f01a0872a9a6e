import math

import torch
from torch import Tensor

from discrete_meanflow.ctmc.generator import ConstantGenerator, RateGenerator
from discrete_meanflow.ctmc.propagator import Propagator
from discrete_meanflow.process.base import PathSample, Process, check_initial
from discrete_meanflow.simplex import categorical, quantile, spread_levels
from discrete_meanflow.state import Discrete
from discrete_meanflow.times import TimePair
from discrete_meanflow.types import Probs, Times, Tokens


class ChainProcess(Process):
    """A finite chain with a known generator: exact kernel, exact draws.

    Args:
        generator: u_t.
        initial: p_0, shape ``(n,)``; uniform by default.
        stratified: stratify the draws of x_t over a batch. Each draw keeps the law
            ``K_{r,t}(., x_r)``, so estimators stay unbiased, and batch means vary far less.
    """

    initial: Tensor
    columns: Tensor

    def __init__(
        self, generator: RateGenerator, initial: Tensor | None = None, stratified: bool = False
    ) -> None:
        super().__init__()
        self.stratified = stratified
        self.generator = generator
        self.space = Discrete(generator.states)
        self.propagator = Propagator(generator)
        p_0 = check_initial(initial, self.states)
        self.register_buffer("initial", p_0, persistent=False)
        # u transposed: a row per start state, so that u_t(., y) is a row lookup.
        columns = torch.empty(0)
        if isinstance(generator, ConstantGenerator):
            columns = generator.matrix.T.contiguous()
        self.register_buffer("columns", columns, persistent=False)

    def source(self, shape: tuple[int, ...], g: torch.Generator) -> Tokens:
        return categorical(self.initial, g, math.prod(shape)).view(shape)

    def law(self, x: Tokens, r: Times, t: Times) -> Probs:
        """``K_{r,t}(., x)``: shape ``(*batch, n)``, float64."""
        self.propagator.to(x.device)
        return self.propagator.law(x, r, t)

    def path(self, times: TimePair, g: torch.Generator, draws: int = 1) -> PathSample:
        """Draw ``x_r ~ p_r`` and ``draws`` samples of ``x_t ~ K_{r,t}(., x_r)``."""
        r, t = times.r, times.t
        x_0 = self.source(tuple(r.shape), g)
        x = categorical(self.law(x_0, torch.zeros_like(r), r), g)
        law = self.law(x, r, t)
        if self.stratified:
            # Neighbours are paths with the same start and similar length.
            y = quantile(law, spread_levels(2 * x + (t - r), draws, g))
        else:
            y = categorical(law, g, draws)
        none = x.new_empty(*x.shape, 0)
        return PathSample(x, r.float(), t.float(), y, law.float(), none, t.float())

    def rates_at(self, path: PathSample) -> Probs:
        return self.rate(path.y, path.t[..., None].expand(path.y.shape))

    def rate(self, y: Tokens, t: Times) -> Probs:
        """``u_t(., y)``, the column of the generator: shape ``(*batch, n)``, dtype of t."""
        if self.columns.numel():
            return self.columns.to(t.dtype)[y]
        column = y[..., None, None].expand(*y.shape, self.states, 1)
        return self.generator.at(t).gather(-1, column)[..., 0].to(t.dtype)

    def flow(self, p: Probs, t: Times) -> Probs:
        """``u_t p``, the derivative of a law p at time t: shape ``(*batch, n)``."""
        if self.columns.numel():
            return p @ self.columns.to(p.dtype)
        return (self.generator.at(t).to(p.dtype) @ p[..., None])[..., 0]

    def extra_repr(self) -> str:
        initial = [round(p, 6) for p in self.initial.tolist()]
        return f"{self.generator}, initial={initial}, stratified={self.stratified}"
