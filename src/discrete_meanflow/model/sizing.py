"""The size of the network and of a step, from the data and the device."""

import math
import statistics
from dataclasses import dataclass, replace

import torch

from discrete_meanflow.data.codec import Codec
from discrete_meanflow.errors import InputError
from discrete_meanflow.model.options import SMALLEST_SIZE, FitOptions
from discrete_meanflow.model.plan import TRAINING, Plan
from discrete_meanflow.network import DiT
from discrete_meanflow.training import Distributed


@dataclass(frozen=True)
class SizingDefaults:
    """How the size of the network and of a step follow from the data and the device."""

    cpu_size: float = 2e6  # parameters
    gpu_size: float = 16e6  # parameters, at most
    parameters_per_token: float = 3  # on a GPU, which has the time to memorise small data
    bits_per_letter: float = 5  # a symbol of a larger alphabet carries more, and counts for more
    flat_state: int = 2**14  # numbers in a state up to which an MLP over all of them is cheap
    mlp_layers: int = 3
    gpu_batch: int = 512
    mlp_batch: int = 256
    cpu_attention_batch: int = 64
    cpu_step: float = 2e10  # operations of a step with attention on a CPU
    cpu_block: float = 3e11  # operations of a block on a CPU: a few seconds, as stops wait for it
    most_block: int = 100  # steps
    learning_rate: float = 1e-3
    large_size: float = 5e6  # parameters from which the learning rate is smaller
    large_learning_rate: float = 6e-4
    minibatch_ot: int = 1024  # with attention; over a flattened state it does not pay
    muon_ratio: float = 4.0  # likewise


SIZING = SizingDefaults()


def default_size(codec: Codec, device: str, tokens: int) -> float:
    """Parameters for training data of ``tokens`` tokens, padding included."""
    if torch.device(device).type == "cuda":
        size = SIZING.parameters_per_token * tokens * _letters_per_symbol(codec)
        return min(SIZING.gpu_size, max(SMALLEST_SIZE, size))
    if codec.vocabulary * codec.length <= SIZING.flat_state:
        return SIZING.cpu_size
    size = SIZING.cpu_step / (6 * codec.length * SIZING.cpu_attention_batch)
    return min(SIZING.cpu_size, max(SMALLEST_SIZE, size))


def _letters_per_symbol(codec: Codec) -> float:
    """The information of a symbol in letters, averaged over positions."""
    allowed = codec.allowed
    levels = [codec.vocabulary] if allowed is None else allowed.sum(-1).tolist()
    return statistics.fmean(max(1, math.log2(n) / SIZING.bits_per_letter) for n in levels)


def choose_plan(
    codec: Codec, device: str, size: float, options: FitOptions, world_size: int = 1
) -> Plan:
    """Choose network and batch for the data and the device; the numbers of steps come later."""
    gpu = torch.device(device).type == "cuda"
    batch, accumulate = options.batch, options.accumulate
    if batch is None:
        batch = _default_batch(codec, gpu, multiple_of=world_size * accumulate)
    Distributed(world_size).check(batch // accumulate)
    width, layers, heads = _network_shape(codec, gpu, size)
    rate = SIZING.learning_rate if size < SIZING.large_size else SIZING.large_learning_rate
    plan = Plan(
        1, 1, 1, batch, rate, options.seed, gpu, width, layers, heads, accumulate=accumulate
    )
    if heads:
        # A class is observed as a rule, and minibatch OT does not apply to observed positions.
        minibatch_ot = 0 if codec.class_positions else SIZING.minibatch_ot
        plan = replace(plan, minibatch_ot=minibatch_ot, muon_ratio=SIZING.muon_ratio)
    block = min(SIZING.most_block, TRAINING.block_bytes // plan.step_bytes(codec))
    if not gpu:
        work = 6 * plan.parameters * 2 * batch * (codec.length if heads else 1)
        block = min(block, int(SIZING.cpu_block / work))
    return replace(plan, block=max(1, block))


def _network_shape(codec: Codec, gpu: bool, size: float) -> tuple[int, int, int]:
    """Width, layers and heads of a network of ``size`` parameters."""
    flat = codec.vocabulary * codec.length
    if gpu or flat > SIZING.flat_state:
        with torch.device("meta"):  # only its shape is needed
            network = DiT.sized(codec.vocabulary, codec.length, size)
        return network.width, len(network.layers), network.heads
    layers = SIZING.mlp_layers
    # Layers of width w have 4 w^2 parameters each; both ends have w times the state.
    width = int(((flat**2 + 4 * layers * size) ** 0.5 - flat) / (4 * layers))
    return max(16, width - width % 2), layers, 0


def _default_batch(codec: Codec, gpu: bool, multiple_of: int) -> int:
    """Records per step that fit into memory."""
    flat = codec.vocabulary * codec.length
    cpu = SIZING.mlp_batch if flat <= SIZING.flat_state else SIZING.cpu_attention_batch
    record = 4 * flat  # bytes of a continuous state
    batch = min(SIZING.gpu_batch if gpu else cpu, TRAINING.block_bytes // record)
    if batch < 1:
        raise InputError(
            f"{codec.length:,} positions of {codec.vocabulary:,} symbols are too many: one record "
            f"takes {record / 2**20:,.0f} MiB; use shorter records or fewer symbols"
        )
    return max(1, batch // multiple_of) * multiple_of
