"""Monte-Carlo bounds of ``-log p(x1)``, in nats per sequence, for models of many steps.

Each estimates an integral or a sum over times, with one stratified time per draw and sequence,
and adds what the last step to the data costs. The estimate is unbiased for the bound; its
standard error falls as the number of draws and sequences grows. Given observed positions, it
bounds ``-log p(x1 | observed)``. The map of one step has no tractable likelihood.
"""

import math

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import BridgeKernel, FlowMapKernel, RateKernel
from discrete_meanflow.objective.rate_kl import RateKL
from discrete_meanflow.objective.transition_kl import TransitionKL
from discrete_meanflow.process import OneHotFlow, PathSample, SequenceProcess
from discrete_meanflow.simplex import delta
from discrete_meanflow.times import TimePair
from discrete_meanflow.types import Times, Tokens

LAST_RATIO = 12.0  # t/(1 - t) at the last time; beyond, the exact flow knows every symbol


@torch.no_grad()
def rate_bound(
    kernel: RateKernel,
    x1: Tokens,
    g: torch.Generator,
    draws: int = 64,
    end: float = 1 - 1e-3,
    observed: Tensor | None = None,
) -> Tensor:
    """The integral of ``RateKL`` over [start, end] and ``-log K_theta(x1, x_end, end, 1)``.

    The continuous-time model up to time ``end``, then one step to the data, so nothing is cut
    off. It starts from the source at ``kernel.earliest``; where that is above 0, the bound
    includes ``KL(p_start(. | x1), p_0)``. Exact rates of a Markov process make it tight.

    Args:
        kernel: a kernel with rates.
        x1: sequences, ``(N, D)``.
        g: the random generator.
        draws: number of times per sequence.
        end: the last time.
        observed: bool ``(N, D)``.
    """
    process, start = kernel.process, kernel.earliest
    total = torch.zeros(len(x1), dtype=torch.float64, device=x1.device)
    # Times are uniform in v = (1 - r)^(1/2), dr = 2 v dv, because late times vary most.
    first, final = (1 - start) ** 0.5, (1 - end) ** 0.5
    for level in _stratified(x1, draws, g):
        v = final + (first - final) * level
        path = _path(kernel, process, x1, 1 - v**2, 1 - v**2, g, observed)
        total += 2 * v * (first - final) * RateKL().by_position(kernel, path).double().sum(-1)
    time = torch.full_like(total, end)
    last = _path(kernel, process, x1, time, time, g, observed)
    law = kernel.probs(last.x, last.r, torch.ones_like(last.r)).double()
    ends = _prior(process, x1, start, observed) - law.gather(-1, x1[..., None])[..., 0].log()
    return total / draws + ends.sum(-1)


@torch.no_grad()
def transition_bound(
    kernel: BridgeKernel,
    x1: Tokens,
    g: torch.Generator,
    steps: int,
    draws: int = 64,
    observed: Tensor | None = None,
) -> Tensor:
    """The variational bound of the chain of T even steps: the sum of ``TransitionKL`` over them.

    Arguments as in ``rate_bound``.
    """
    objective = TransitionKL(steps)
    total = torch.zeros(len(x1), dtype=torch.float64, device=x1.device)
    for level in _stratified(x1, draws, g):
        i = ((1 - level**2) * steps).floor().clamp(max=steps - 1)  # late steps vary most
        r, t = i / steps, (i + 1) / steps
        path = _path(kernel, kernel.process, x1, r, t, g, observed)
        weight = 1 / (steps * ((1 - r).sqrt() - (1 - t).sqrt()))
        total += weight * objective.by_position(kernel, path).double().sum(-1)
    return total / draws


@torch.no_grad()
def one_hot_flow_bound(
    kernel: FlowMapKernel,
    x1: Tokens,
    g: torch.Generator,
    draws: int = 64,
    observed: Tensor | None = None,
) -> Tensor:
    """``integral t/(1-t)^3 |e_{x1} - mu(x_t, t)|^2 dt`` and ``-log mu(x1 | x_last)``.

    mu is the diagonal q(x, t, t) of a flow map trained with independent noise; it bounds the
    likelihood of the many-step model (Kingma et al. 2021, arXiv:2107.00630). In the ratio
    ``a = t/(1 - t)`` the integrand is ``a |e - mu|^2``, or ``a |A (e - mu)|^2`` for ordered
    symbols: a is drawn uniformly up to 12. Arguments as in ``rate_bound``.
    """
    process = OneHotFlow(kernel.states, ordered=kernel.space.ordered)
    total = torch.zeros(len(x1), dtype=torch.float64, device=x1.device)
    hidden = torch.ones_like(x1, dtype=torch.bool) if observed is None else ~observed
    for level in _stratified(x1, draws, g):
        a = LAST_RATIO * level
        path = _path(kernel, process, x1, a / (1 + a), a / (1 + a), g, observed)
        mu = kernel(path.x, path.r, path.r).softmax(-1)
        miss = kernel.space.network_input(delta(x1, kernel.states, mu.dtype) - mu, mu.dtype)
        error = miss.double().square().sum(-1)
        total += a * (error * hidden).sum(-1)
    t = torch.full_like(total, LAST_RATIO / (1 + LAST_RATIO))
    last = _path(kernel, process, x1, t, t, g, observed)
    log_mu = kernel(last.x, last.r, last.r).double().log_softmax(-1)
    final = -log_mu.gather(-1, x1[..., None])[..., 0] * hidden
    return total * LAST_RATIO / draws + final.sum(-1)


def bits_per_symbol(nats: Tensor, length: int) -> float:
    """The mean of bounds in nats per sequence, in bits per symbol of sequences of this length."""
    return nats.mean().item() / (length * math.log(2))


def _stratified(x1: Tokens, draws: int, g: torch.Generator) -> list[Tensor]:
    """Uniform levels ``(N,)``, one in each of the ``draws`` equal parts of [0, 1)."""
    if x1.dim() != 2 or draws < 1:
        raise InputError(
            f"bound: needs sequences of shape (N, D) and at least one draw, got "
            f"{tuple(x1.shape)} and {draws}"
        )
    level = torch.rand(draws, len(x1), dtype=torch.float64, device=x1.device, generator=g)
    return [(i + part) / draws for i, part in enumerate(level)]


def _path(
    kernel: RateKernel | FlowMapKernel,
    process: SequenceProcess,
    x1: Tokens,
    r: Times,
    t: Times,
    g: torch.Generator,
    observed: Tensor | None,
) -> PathSample:
    """``x_r | x1`` at times ``(N,)``, in the precision of the kernel."""
    path = process.path(x1, TimePair(r, t), g, 0, observed)
    x = path.x.to(kernel.dtype) if path.x.is_floating_point() else path.x
    return path._replace(x=x, r=path.r.to(kernel.dtype), t=path.t.to(kernel.dtype))


def _prior(process: SequenceProcess, x1: Tokens, start: float, observed: Tensor | None) -> Tensor:
    """``KL(p_start(. | x1), p_0)`` of each position, 0 where observed: ``(N, D)``."""
    every = torch.arange(process.states, device=x1.device)
    zero = torch.zeros(every.shape, dtype=torch.float64, device=x1.device)
    p, source = process.likelihood(every, zero + start), process.likelihood(every, zero)
    kl = (torch.xlogy(p, p) - torch.xlogy(p, source)).sum(0)[x1]
    return kl if observed is None else kl.masked_fill(observed, 0)
