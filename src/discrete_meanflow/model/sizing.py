"""The size of the network and of a step, from the data and the device."""

import math
import statistics
from dataclasses import replace

import torch

from discrete_meanflow.device import has_fast_bf16
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.codec import Codec
from discrete_meanflow.method import Method, find_method
from discrete_meanflow.model.options import SMALLEST_SIZE, FitOptions
from discrete_meanflow.model.plan import Plan
from discrete_meanflow.model.plan_limits import BLOCK_BYTES, step_bytes
from discrete_meanflow.network import CausalTransformer, DiT
from discrete_meanflow.training import Distributed

# How the size of the network and of a step follow from the data and the device.
CPU_SIZE = 2.3e6  # parameters, at most
SMALL_STATE = 250  # numbers in a state below which a smaller network trains longer and better
# With many records a smaller network sees more noise in the same time; with few, it learns less.
MANY_RECORDS = 15_000
SIZE_PER_ROOT = 2e4  # parameters with many records, times the root of the numbers in a state
SMALL_SIZE = 5e5  # parameters of an MLP below which a CPU has time for more than small batches
# Numbers in a state below which laws are learned better by Muon, whose matrices are then most of
# the network, and by more steps on teacher pairs instead of distribution matching.
TINY_STATE = 54
ODE_STEPS, SMALL_ODE_STEPS = 16, 32  # of the teacher; the second with a small MLP
GPU_SIZE = 16e6  # parameters, at most
PARAMETERS_PER_TOKEN = 3  # on a GPU, which has the time to memorise small data
BITS_PER_LETTER = 5  # a symbol of a larger alphabet carries more, and counts for more
FLAT_STATE = 2**14  # numbers in a state up to which an MLP over all of them is cheap
MLP_LAYERS = 3
GPU_BATCH = 512
MLP_BATCH, SMALL_BATCH = 256, 1024  # the second with a small MLP
CPU_ATTENTION_BATCH = 64
CPU_STEP = 2e10  # operations of a step with attention on a CPU
CPU_POINTS = 2**24  # bytes of the starts of a block on a CPU: with more, steps miss its caches
CPU_BLOCK = 3e11  # operations of a block on a CPU: a few seconds, as stops wait for it
MOST_BLOCK = 100  # steps
LEARNING_RATE, SMALL_LEARNING_RATE = 1e-3, 2e-3  # the second with a small MLP
TINY_LEARNING_RATE = 4e-3  # with a small MLP and Muon
MINIBATCH_OT = 1024  # with attention; over a flattened state it does not pay
MUON_RATIO = 4.0  # with attention, and with tiny states


def default_size(codec: Codec, device: str, tokens: int) -> float:
    """Parameters for training data of ``tokens`` tokens, padding included."""
    if torch.device(device).type == "cuda":
        size = PARAMETERS_PER_TOKEN * tokens * _letters_per_symbol(codec)
        return min(GPU_SIZE, max(SMALLEST_SIZE, size))
    flat = codec.vocabulary * codec.length
    if flat <= FLAT_STATE:
        size = CPU_SIZE * min(1.0, flat / SMALL_STATE)
        small = SIZE_PER_ROOT * math.sqrt(flat)
        if tokens >= MANY_RECORDS * codec.length and small < SMALL_SIZE:
            size = min(size, small)
        return max(SMALLEST_SIZE, size)
    size = CPU_STEP / (6 * codec.length * CPU_ATTENTION_BATCH)
    return min(CPU_SIZE, max(SMALLEST_SIZE, size))


def _letters_per_symbol(codec: Codec) -> float:
    """The information of a symbol in letters, averaged over positions."""
    allowed = codec.allowed
    levels = [codec.vocabulary] if allowed is None else allowed.sum(-1).tolist()
    return statistics.fmean(max(1, math.log2(n) / BITS_PER_LETTER) for n in levels)


def choose_plan(
    codec: Codec, device: str, size: float, options: FitOptions, world_size: int = 1
) -> Plan:
    """Choose network and batch for the data and the device; the numbers of steps come later."""
    gpu = torch.device(device).type == "cuda"
    batch, accumulate, method = options.batch, options.accumulate, find_method(options.method)
    if batch is None:
        multiple = world_size * accumulate * method.multiple
        batch = _default_batch(codec, gpu, size, multiple, method)
    Distributed(world_size).check(batch // accumulate)
    if batch < 2 * world_size * accumulate:
        raise InputError(
            f"a batch of {batch} is too small for {world_size} ranks: a rank needs at least "
            f"{2 * accumulate} records, of which half are teacher pairs"
        )
    _check_method(options, codec, batch // (world_size * accumulate))
    width, layers, heads = _network_shape(codec, gpu, size, method)
    small = _is_small_mlp(codec, gpu, size) and not heads
    tiny = codec.vocabulary * codec.length < TINY_STATE
    bf16 = has_fast_bf16(device) and not small  # the laws of small data are learned exactly
    ode_steps = SMALL_ODE_STEPS if small else ODE_STEPS
    rate = SMALL_LEARNING_RATE if small else LEARNING_RATE
    distilled = method.distilled
    matching = options.matching == "yes" or (options.matching == "auto" and not tiny)
    matching = matching and distilled
    plan = Plan(
        1, int(distilled), int(distilled), ode_steps, batch, rate, options.seed, bf16, width,
        layers, heads, accumulate=accumulate, matching_steps=int(matching), method=options.method,
    )  # fmt: skip
    if small and tiny and not matching:
        plan = replace(plan, learning_rate=TINY_LEARNING_RATE, muon_ratio=MUON_RATIO)
    if heads:
        # A class is observed as a rule, and minibatch OT does not apply to observed positions.
        # Nor to the third stage, whose formula holds for independent noise.
        independent = bool(codec.class_positions) or matching or not distilled
        minibatch_ot = 0 if independent else MINIBATCH_OT
        plan = replace(plan, minibatch_ot=minibatch_ot, muon_ratio=MUON_RATIO)
    block = min(MOST_BLOCK, BLOCK_BYTES // step_bytes(plan, codec))
    if not gpu:
        work = 6 * plan.parameters * 2 * batch * (codec.length if heads else 1)
        points = 4 * codec.vocabulary * codec.length * batch
        block = min(block, int(CPU_BLOCK / work), CPU_POINTS // points)
    return replace(plan, block=max(1, block))


def _check_method(options: FitOptions, codec: Codec, part: int) -> None:
    """Raise unless the method can take the data, and parts of a batch of this size."""
    method = find_method(options.method)
    if part % method.multiple:
        raise InputError(
            f"method {options.method} takes groups of {method.multiple} records, and a batch has "
            f"parts of {part}; choose another batch"
        )
    if method.same_symbols and codec.allowed is not None:
        raise InputError(
            f"method {options.method} needs the same symbols in all positions, which the columns "
            "of a table do not have; method sedd takes any data"
        )


def _is_small_mlp(codec: Codec, gpu: bool, size: float) -> bool:
    """Whether steps are so cheap that larger batches and longer trajectories pay."""
    return not gpu and codec.vocabulary * codec.length <= FLAT_STATE and size < SMALL_SIZE


def _network_shape(codec: Codec, gpu: bool, size: float, method: Method) -> tuple[int, int, int]:
    """Width, layers and heads of a network of ``size`` parameters."""
    flat = codec.vocabulary * codec.length
    if method.causal:
        with torch.device("meta"):
            states = method.process(codec.vocabulary).states
            causal = CausalTransformer.sized(states, codec.length, size)
        return causal.width, len(causal.layers), causal.heads
    if gpu or flat > FLAT_STATE:
        with torch.device("meta"):  # only its shape is needed
            network = DiT.sized(codec.vocabulary, codec.length, size)
        return network.width, len(network.layers), network.heads
    layers = MLP_LAYERS
    # Layers of width w have 4 w^2 parameters each, modulations 130 w; both ends together have three
    # times the state and three numbers per position.
    ends = (3 * (flat + codec.length) + 130 * layers) / 2
    width = int(((ends**2 + 4 * layers * size) ** 0.5 - ends) / (4 * layers))
    return max(16, width - width % 2), layers, 0


def _default_batch(codec: Codec, gpu: bool, size: float, multiple_of: int, method: Method) -> int:
    """Records per step that fit into memory."""
    flat = codec.vocabulary * codec.length
    attends = method.causal or flat > FLAT_STATE
    cpu = CPU_ATTENTION_BATCH if attends else MLP_BATCH
    cpu = SMALL_BATCH if _is_small_mlp(codec, gpu, size) and not attends else cpu
    record = 4 * flat  # bytes of a continuous state
    batch = min(GPU_BATCH if gpu else cpu, BLOCK_BYTES // record)
    if batch < 1:
        raise InputError(
            f"{codec.length:,} positions of {codec.vocabulary:,} symbols are too many: one record "
            f"takes {record / 2**20:,.0f} MiB; use shorter records or fewer symbols"
        )
    return max(2, batch // multiple_of) * multiple_of  # half of it are teacher pairs
