"""Minibatch optimal transport between noise and data (Tong et al. 2023, arXiv:2302.00482)."""

import torch
from torch import Tensor

from discrete_meanflow.simplex import delta
from discrete_meanflow.types import Point, Tokens


def assign_noise(z: Point, x1: Tokens, free: Tensor, group: int) -> Point:
    """Permute the noise within groups of sequences so that each is close to its sequence.

    Up to terms that no permutation changes, the cost ``|z - e_x|^2`` is ``-2 z . e_x``.

    Args:
        z: noise, ``(*batch, D, V)``.
        x1: sequences, ``(*batch, D)``.
        free: bool ``(*batch,)``; the other sequences keep their own noise.
        group: sequences per group.
    """
    if not z.numel():
        return z
    flat, sequences, free = z.flatten(0, -3), x1.flatten(0, -2), free.flatten()
    full = len(flat) // group * group
    parts = [(flat[a:b], sequences[a:b], free[a:b]) for a, b in ((0, full), (full, len(flat)))]
    assigned = [_assign(*part, min(group, len(part[0]))) for part in parts if len(part[0])]
    return torch.cat(assigned).reshape(z.shape)


def _assign(z: Point, x1: Tokens, free: Tensor, group: int) -> Point:
    noise = z.flatten(1).unflatten(0, (-1, group))  # (groups, group, D V)
    data = delta(x1, z.shape[-1], z.dtype).flatten(1).unflatten(0, (-1, group))
    affinity = noise @ data.transpose(1, 2)
    fixed = ~free.unflatten(0, (-1, group))
    affinity = affinity.masked_fill(fixed[:, :, None] | fixed[:, None, :], -torch.inf)
    affinity.diagonal(dim1=1, dim2=2).masked_fill_(fixed, torch.inf)
    order = greedy_assignment(affinity).argsort(-1)  # for each sequence, the index of its noise
    return noise.gather(1, order[..., None].expand_as(noise)).reshape(z.shape)


def greedy_assignment(affinity: Tensor) -> Tensor:
    """The column of each row, a permutation: the best pair first, then the best of the rest.

    All mutually best pairs are taken at once: about twenty rounds for groups of m = 512, and 0.92
    of the affinity of the optimal permutation, which costs O(m^3).

    Args:
        affinity: ``(groups, m, m)``.
    """
    left, here = affinity.clone(), torch.arange(affinity.shape[-1], device=affinity.device)
    taken = torch.full(affinity.shape[:-1], -1, device=affinity.device)
    while bool((taken < 0).any()):
        column, row = left.argmax(-1), left.argmax(-2)
        mutual = (taken < 0) & (row.gather(-1, column) == here)
        taken = torch.where(mutual, column, taken)
        used = mutual.gather(-1, row) & (column.gather(-1, row) == here)  # columns
        left.masked_fill_(mutual[..., None] | used[..., None, :], -torch.inf)
    return taken
