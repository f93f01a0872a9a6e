"""The samples of an evaluation, kept in the run folder.

The machine that draws them may have a GPU, and the one that scores them scikit-learn.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy
import torch

from discrete_meanflow.data.split import FEWEST_HELD_OUT
from discrete_meanflow.errors import InputError
from discrete_meanflow.files import digest
from discrete_meanflow.io.codec import Codec
from discrete_meanflow.io.kind import Kind
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.metric.text import ReferenceLM
from discrete_meanflow.model import tensor_files
from discrete_meanflow.model.conditional_samples import method_conditions
from discrete_meanflow.model.evaluation_grids import REAL
from discrete_meanflow.model.likelihood import check_likelihood, likelihood
from discrete_meanflow.model.options import EvaluateOptions, SampleOptions
from discrete_meanflow.model.run_folder import HELD_OUT, WEIGHTS, Config
from discrete_meanflow.model.sampling import sample_tokens
from discrete_meanflow.run.environment import environment
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.types import State

SAMPLES = "samples.safetensors"
FEWEST_LM_RECORDS = 1000  # that a reference LM can learn from
MOST_BITS = 1e3  # per symbol
DAMAGED = (ValueError, TypeError, KeyError, OverflowError, RecursionError)


@dataclass(frozen=True)
class EvalSplit:
    """The held-out records of an evaluation.

    Args:
        reference: records that samples are compared with.
        real: as many records that are scored like samples, which gives the best reachable score.
        rest: all others; a reference LM learns from them.
    """

    reference: State
    real: State
    rest: State

    @classmethod
    def read(cls, folder: Path, codec: Codec, n: int) -> "EvalSplit":
        held_out = tensor_files.read_tokens(folder / HELD_OUT, codec)
        if len(held_out) < FEWEST_HELD_OUT:
            raise InputError(
                f"evaluate: {len(held_out)} held-out records are too few, at least "
                f"{FEWEST_HELD_OUT} are needed; train again with --held-out N"
            )
        count = min(n, len(held_out) // 2)
        # In random order: neighbouring windows of a text are similar.
        order = numpy.random.default_rng(0).permutation(2 * count)
        reference, real = held_out[torch.from_numpy(order)].split(count)
        return cls(reference, real, held_out[2 * count :])

    def lm_records(self, kind: Kind, codec: Codec) -> State:
        """The records that a reference LM learns from: windows of a text start anywhere."""
        rest = self.rest[:, : codec.bare.length]  # without the class
        if len(rest) < FEWEST_LM_RECORDS:
            raise InputError(
                f"the reference LM needs {FEWEST_LM_RECORDS} held-out records besides those that "
                f"are compared, and {len(rest)} are left; use a smaller -n, or train with a larger "
                "--held-out"
            )
        return rest.flatten().unfold(0, rest.shape[1], 1) if kind.one_text else rest


@dataclass(frozen=True)
class EvalSamples:
    """Samples at each number of steps.

    Args:
        options: what was asked for.
        tokens: samples by number of steps.
        bits: bits per symbol by row of the table; empty without a reference LM.
        environment: where they were drawn.
        conditional: samples by name of their condition.
        likelihood: bits per symbol of held-out records, see ``likelihood``.
    """

    options: EvaluateOptions
    tokens: dict[int, State]
    bits: dict[str, float]
    environment: Json
    conditional: dict[str, State]
    likelihood: Json

    def rows(self, split: EvalSplit) -> dict[str, State]:
        """All records that are scored, by row of the table."""
        return {REAL: split.real} | {row_name(k): x for k, x in self.tokens.items()}


def row_name(steps: int) -> str:
    return f"{steps} step{'s' * (steps > 1)}"


def check_evaluation(folder: Path, config: Config, options: EvaluateOptions) -> None:
    """Raise if an evaluation with these options cannot work: before samples take minutes."""
    split = EvalSplit.read(folder, config.codec, options.n)
    if options.lm_steps:
        split.lm_records(config.kind, config.codec)


def draw(folder: Path, config: Config, kernel: Kernel, options: EvaluateOptions) -> EvalSamples:
    """Draw samples, and train a reference LM if asked to."""
    codec = config.codec
    split = EvalSplit.read(folder, codec, options.n)
    lm_records = split.lm_records(config.kind, codec) if options.lm_steps else None
    count = len(split.real)
    tokens = {
        k: torch.cat(list(sample_tokens(kernel, config, SampleOptions(count, k, options.seed))))
        for k in options.steps
    }
    conditional = {
        name: condition.draw(kernel, config, options.seed)
        for name, condition in method_conditions(config, split.real, options.n).items()
    }
    nats = likelihood(kernel, config, split.real)
    samples = EvalSamples(options, tokens, {}, environment(), conditional, nats)
    if lm_records is None:
        return samples
    device, length = str(kernel.device), codec.bare.length
    lm = ReferenceLM.fit(lm_records, codec.bare.vocabulary, device, options.lm_steps)
    bits = {name: lm.bits(x[:, :length]) for name, x in samples.rows(split).items()}
    return replace(samples, bits=bits)


def save_samples(folder: Path, config: Config, samples: EvalSamples) -> None:
    """Write the samples into the run folder."""
    content = {
        "options": asdict(samples.options),
        "bits": samples.bits,
        "environment": samples.environment,
        "likelihood": samples.likelihood,
        "weights": _weights_digest(folder),
    }
    tokens = {str(k): x for k, x in samples.tokens.items()} | samples.conditional
    metadata = {name: json.dumps(value) for name, value in content.items()}
    tensor_files.write_tokens(folder / SAMPLES, tokens, config.codec.vocabulary, metadata)


def load_samples(folder: Path, config: Config, options: EvaluateOptions) -> EvalSamples | None:
    """Read the samples of the run folder if they fit the options and the weights.

    Where the weights are missing, they stayed on the machine that drew the samples.
    """
    path, weights = folder / SAMPLES, _weights_digest(folder)
    if not path.is_file():
        return None
    saved, digest_then = _read_saved(path)
    gpu, elsewhere = saved.environment["gpu"], saved.environment["gpu"] != environment()["gpu"]
    if saved.options != options and (weights is None or elsewhere):
        where = f", drawn on {gpu or saved.environment['machine']}" * elsewhere
        raise InputError(
            f"{path} contains samples of other options{where}; use dmf evaluate {folder} "
            f"{saved.options.command_line}" + ", or delete it" * (weights is not None)
        )
    if saved.options != options or weights not in (None, digest_then):
        return None
    split = EvalSplit.read(folder, config.codec, options.n)
    expected = method_conditions(config, split.real, options.n)
    steps = {str(k): k for k in options.steps}
    tensors = tensor_files.read_tensors(path, {*steps, *expected})
    for name, tokens in tensors.items():
        tensor_files.check_tokens(path, tokens, config.codec)
        if name in steps and len(tokens) != len(split.real):
            wrong = f"{len(tokens)} samples, not {len(split.real)}"
            raise InputError(f"{path} is damaged: {wrong}; delete it")
        if name in expected and not expected[name].is_met(tokens):
            raise InputError(f"{path} is damaged: samples differ from their condition; delete it")
    return replace(
        saved,
        tokens={k: tensors[name] for name, k in steps.items()},
        conditional={name: tensors[name] for name in expected},
    )


def load_saved(folder: Path, config: Config) -> EvalSamples | None:
    """Read the samples of the run folder if they fit the weights."""
    path = folder / SAMPLES
    return load_samples(folder, config, _read_saved(path)[0].options) if path.is_file() else None


def _read_saved(path: Path) -> tuple[EvalSamples, str | None]:
    """The saved samples, without their tokens, and the digest of the weights that drew them."""
    try:
        metadata = tensor_files.read_metadata(path)
        content = {name: json.loads(value) for name, value in metadata.items()}
        options = EvaluateOptions(**content["options"])
        names = [REAL, *map(row_name, options.steps)] if options.lm_steps else []
        bits = {name: float(content["bits"][name]) for name in names}
        where = {name: content["environment"][name] for name in environment()}
        if not all(0 <= value <= MOST_BITS for value in bits.values()):
            raise ValueError(f"bits of {bits}")
        for value in where.values():
            str.encode(value or "")  # raises unless it is valid text
        nats = check_likelihood(content["likelihood"])
        return EvalSamples(options, {}, bits, where, {}, nats), content["weights"]
    except DAMAGED as error:
        raise InputError(f"{path} is damaged; delete it ({error})") from None


def _weights_digest(folder: Path) -> str | None:
    path = folder / WEIGHTS
    return digest(path) if path.is_file() else None
