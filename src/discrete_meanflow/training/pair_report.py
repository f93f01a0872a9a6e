"""How far teacher pairs are from those of an exact teacher."""

from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_meanflow.data import Sequences, TokenArray
from discrete_meanflow.metric.two_samples import copies
from discrete_meanflow.path import TeacherPairs
from discrete_meanflow.sampler import ODESampler, chunk_size

MOST_PAIRS = 2000  # of each kind
MOST_NUMBERS = 2**22  # of their noise
MOST_COORDINATES = 256  # whose correlations are measured
MOST_OPERATIONS = 5e10  # of the trajectories: about a second on a CPU core
FEWEST_TRAJECTORIES = 32


@dataclass(frozen=True)
class NoiseMoments:
    """Moments of the noise that data leads back to; in parentheses those of normal noise.

    Args:
        mean: (0).
        variance: (1).
        kurtosis: (3).
        correlation: root mean square correlation of two coordinates, without the part that is
            due to the finite number of pairs (0).
        pairs: number of pairs.
    """

    mean: float
    variance: float
    kurtosis: float
    correlation: float
    pairs: int

    @classmethod
    def of(cls, noise: Tensor, free: Tensor) -> "NoiseMoments":
        """Moments of noise ``(N, D, V)`` in the free positions (bool ``(N, D)``)."""
        values = noise[free].double()
        mean, variance = values.mean(), values.var()
        kurtosis = (values - mean).pow(4).mean() / variance.square()
        correlation = _correlation(noise.double() - mean, free)
        return cls(mean.item(), variance.item(), kurtosis.item(), correlation, len(noise))


@dataclass(frozen=True)
class PairReport:
    """Statistics of teacher pairs. None where there are no such pairs or records.

    Args:
        copies: fraction of the pairs from noise that end in a training record, among pairs without
            observed positions.
        returned: fraction of the pairs from data whose noise leads forward to their record.
        noise: moments of the noise of pairs from data.
    """

    copies: float | None
    returned: float | None
    noise: NoiseMoments | None


def describe_pairs(pairs: TeacherPairs, data: Sequences, ode: ODESampler) -> PairReport:
    """Statistics of the first pairs (0, 1), at most ``MOST_PAIRS`` of each kind.

    Args:
        pairs: the teacher pairs.
        data: the training records; any other law has no copies.
        ode: the forward integration of the teacher's flow.
    """
    full = (pairs.times == pairs.times.new_tensor([0.0, 1.0])).all(-1)
    most = min(MOST_PAIRS, max(1, MOST_NUMBERS // pairs.starts[0].numel()))
    from_data = (full & pairs.from_data).nonzero()[:most, 0]
    from_noise = full & ~pairs.from_data
    if pairs.observed is not None:
        from_noise &= ~pairs.observed.any(-1)
    ends = pairs.ends[from_noise.nonzero()[:most, 0]].cpu()
    records = data.tokens.cpu() if isinstance(data, TokenArray) else None
    copied = None if records is None or not len(ends) else copies(ends, records)
    if not len(from_data):
        return PairReport(copied, None, None)
    free = torch.ones_like(pairs.ends[from_data], dtype=torch.bool)
    if pairs.observed is not None:
        free = ~pairs.observed[from_data]
    noise = None
    if int(free.sum()) > 1:
        seen = pairs.process.space.network_input(pairs.starts[from_data], torch.float32)
        noise = NoiseMoments.of(seen, free)
    return PairReport(copied, _returned(pairs, from_data, ode), noise)


def _returned(pairs: TeacherPairs, rows: Tensor, ode: ODESampler) -> float:
    """Fraction of the pairs whose noise leads forward to their end, of as many as is quick."""
    network = ode.kernel.network
    weights = sum(p.numel() for p in network.parameters())
    size = chunk_size(pairs.length, pairs.process.states, network)
    quick = int(MOST_OPERATIONS / (2 * weights * pairs.length * ode.step_count + 1))
    rows = rows[: min(size, max(FEWEST_TRAJECTORIES, quick))]
    condition = None if pairs.observed is None else pairs.observed[rows]
    x, ends = pairs.starts[rows].float(), pairs.ends[rows].long()
    g = torch.Generator(x.device)  # the flow draws nothing
    reached = ode.sample(x, g, None if condition is None else ends, condition)
    return (reached == ends).all(-1).double().mean().item()


def _correlation(noise: Tensor, free: Tensor) -> float:
    """Root mean square correlation of two coordinates, in the n records where both are free.

    That of independent coordinates has mean square 1/n.
    """
    states = noise.shape[-1]
    mask = free[..., None].expand(*free.shape, states).flatten(1).double()
    step = -(-mask.shape[1] // MOST_COORDINATES)
    mask, z = mask[:, ::step], noise.flatten(1)[:, ::step]
    z = z * mask
    scale = (z.square().T @ mask) * (mask.T @ z.square())
    square = (z.T @ z).square() / scale.clamp(min=1e-12)
    both = mask.T @ mask
    pairs = ~torch.eye(len(both), dtype=torch.bool, device=z.device) & (both > 2)
    excess = (square - 1 / both.clamp(min=1))[pairs]
    return excess.mean().clamp(min=0).sqrt().item() if len(excess) else 0.0
