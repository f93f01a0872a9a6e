"""Bits per symbol of a run, where its method has a likelihood."""

import math
from typing import Any

import torch

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.objective import bits_per_symbol
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.sampler import chunk_size
from discrete_meanflow.types import State

MOST_RECORDS = 500
LARGEST_CHUNK = 100  # records
BITS, NOTE, ERROR = "bits per symbol", "note", "standard error"
EXACT = "exact"
BOUND = "upper bound, of the stochastic process of many steps with the same denoiser"
BOUND_OF_MANY = f"{BOUND}; the map of one step has no tractable likelihood"
KINDS = (EXACT, BOUND, BOUND_OF_MANY)
NONE, INFINITE = "the method has no tractable likelihood", "the bound is infinite"


def likelihood(kernel: Kernel, config: Config, records: State) -> Json:
    """Bits per symbol of held-out records, padding and class included; a note if there are none."""
    method, length = config.plan.system, config.codec.length
    if method.bound is None:
        return {NOTE: NONE}
    records = records[:MOST_RECORDS].long().to(kernel.device)
    size = min(LARGEST_CHUNK, chunk_size(length, kernel.states, kernel.network))
    g = torch.Generator(kernel.device).manual_seed(0)
    nats = torch.cat([method.bound(kernel, x1, g).detach() for x1 in records.split(size)]).double()
    if not bool(nats.isfinite().all()):
        return {NOTE: INFINITE}
    return {
        BITS: bits_per_symbol(nats, length),
        ERROR: nats.std(unbiased=False).item() / len(nats) ** 0.5 / (length * math.log(2)),
        "kind": EXACT if method.causal else BOUND_OF_MANY if method.one_step else BOUND,
        "records": len(records),
    }


def check_likelihood(content: Any) -> Json:
    """What ``likelihood`` returned, read from a file; raise ValueError if it is damaged."""
    if content in ({NOTE: NONE}, {NOTE: INFINITE}):
        return dict(content)
    bits, error = float(content[BITS]), float(content[ERROR])
    if not (0 <= bits < math.inf and 0 <= error < math.inf):
        raise ValueError(f"{bits} bits")
    kind = KINDS[KINDS.index(content["kind"])]
    return {BITS: bits, ERROR: error, "kind": kind, "records": int(content["records"])}


def likelihood_line(content: Json) -> str:
    """The likelihood in one line."""
    if BITS not in content:
        return f"{BITS}: {content[NOTE]}"
    return f"{BITS}: {content[BITS]:.3f} +- {content[ERROR]:.3f} ({content['kind']})"
