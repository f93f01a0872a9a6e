"""Bits per symbol of a run, where its method has a likelihood."""

import math
from typing import Any

import torch

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.objective import bits_per_symbol
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.types import State

MOST_RECORDS = 500
CHUNK = 100  # records
BITS, NOTE = "bits per symbol", "note"
EXACT, BOUND = "exact", "upper bound, of the model of many steps"
NONE = "a one-step map has no tractable likelihood"


def likelihood(kernel: Kernel, config: Config, records: State) -> Json:
    """Bits per symbol of held-out records, padding and class included; a note if there are none."""
    method, records = config.plan.system, records[:MOST_RECORDS].long().to(kernel.device)
    if method.bound is None:
        return {NOTE: NONE}
    g = torch.Generator(kernel.device).manual_seed(0)
    nats = torch.cat([method.bound(kernel, x1, g).detach() for x1 in records.split(CHUNK)])
    return {
        BITS: bits_per_symbol(nats, config.codec.length),
        "kind": EXACT if method.causal else BOUND,
        "records": len(records),
    }


def check_likelihood(content: Any) -> Json:
    """What ``likelihood`` returned, read from a file; raise ValueError if it is damaged."""
    if content == {NOTE: NONE}:
        return {NOTE: NONE}
    checked = {
        BITS: float(content[BITS]),
        "kind": {EXACT: EXACT, BOUND: BOUND}[content["kind"]],
        "records": int(content["records"]),
    }
    if not 0 <= float(content[BITS]) < math.inf:
        raise ValueError(f"{content[BITS]} bits")
    return checked


def likelihood_line(content: Json) -> str:
    """The likelihood in one line."""
    if BITS not in content:
        return f"{BITS}: {content[NOTE]}"
    one_step = "" if content["kind"] == EXACT else f"; {NONE}"
    return f"{BITS}: {content[BITS]:.3f} ({content['kind']}{one_step})"
