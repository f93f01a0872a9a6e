"""A generator that answers in one forward pass."""

import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy
import torch

from discrete_meanflow.data import TokenArray
from discrete_meanflow.data.kind import Kind, Tokenised, find_kind
from discrete_meanflow.data.labelled_codec import add_classes
from discrete_meanflow.device import find_device
from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model import run_folder as run
from discrete_meanflow.model.plan import count
from discrete_meanflow.model.prepare import dataset_of, prepare
from discrete_meanflow.model.train import ProgressEvent, train
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import KernelSampler, chunk_size, logits
from discrete_meanflow.training import Distributed
from discrete_meanflow.types import State

MOST_GUIDANCE = 100.0


class OneStepModel:
    """A trained kernel and the codec that turns its tokens into records.

    ``gen = OneStepModel.fit(names, minutes=3); gen.sample(5)``.
    """

    def __init__(self, folder: Path, config: run.Config, kernel: Kernel) -> None:
        self.folder, self.config, self.kernel = folder, config, kernel

    def __repr__(self) -> str:
        codec, kernel = self.config.codec, self.kernel
        return (
            f"OneStepModel({self.config.kind.name}, {codec.length} positions of "
            f"{codec.vocabulary} symbols, {count(kernel):,} parameters on {kernel.home.device}, "
            f"{str(self.folder)!r})"
        )

    @classmethod
    def fit(
        cls,
        records: Any,
        minutes: float | None = 3.0,
        *,
        iterations: int | None = None,
        size: float | None = None,
        seed: int = 0,
        device: str = "auto",
        out: str | Path | None = None,
        held_out: int | None = None,
        labels: Any = None,
        kind: str | None = None,
        tokenizer: str | Path | None = None,
        bins: int | None = None,
        batch: int | None = None,
        watch: Callable[[ProgressEvent], None] = lambda news: None,
    ) -> "OneStepModel":
        """Train on strings, rows, an array of whole numbers, a frame or a dataset.

        ``minutes`` is the time to train in, or ``iterations`` the steps; ``size`` the parameters of
        the network and ``batch`` the records of a step, by default chosen from data and machine;
        ``held_out`` how many records are kept apart for ``evaluate``; ``seed`` of the split, the
        weights and all draws; ``device`` is auto, cpu or cuda.
        ``out`` is the run folder, by default one that goes with the model; ``labels`` are the
        classes of the records, or the column that they stand in; ``kind`` is what strings are
        (smiles, fasta; by default lines); ``tokenizer`` is a Hugging Face tokenizers JSON, in whose
        pieces they are read; ``bins`` cuts columns of numbers into so many values; ``watch`` hears
        of each block.
        """
        numbers = {"minutes": minutes, "iterations": iterations, "size": size, "seed": seed,
                   "held_out": held_out, "bins": bins, "batch": batch}  # fmt: skip
        whole = {"iterations", "seed", "held_out", "bins", "batch"}
        check_numbers("fit", numbers, whole)
        iterations, held_out, batch = (
            None if n is None else int(n) for n in (iterations, held_out, batch)
        )
        seed = int(seed)
        known, dataset = dataset_of(records, _of_strings(kind, tokenizer), bins)
        if labels is not None:
            dataset = add_classes(dataset, labels)
        where = find_device(device)
        passing = Path(tempfile.mkdtemp(prefix="dmf-")) if out is None else None
        folder = passing / "run" if passing is not None else Path(out or "")
        try:
            card = prepare(
                folder, known, dataset, where, minutes=minutes, iterations=iterations, size=size,
                seed=seed, held_out=held_out, batch=batch,
            )  # fmt: skip
            if "time" in card:
                warnings.warn(f"fit takes {card['time']}", stacklevel=2)
            if "warning" in card:
                warnings.warn(f"fit: {card['warning']}", stacklevel=2)
            model = cls.resume(folder, device, watch)
        except BaseException as error:
            if passing is not None and not isinstance(error, Interrupted):  # that can go on
                shutil.rmtree(passing, ignore_errors=True)
            raise
        if passing is not None:
            weakref.finalize(model, shutil.rmtree, passing, ignore_errors=True)
        return model

    @classmethod
    def resume(
        cls,
        folder: str | Path,
        device: str = "auto",
        watch: Callable[[ProgressEvent], None] = lambda news: None,
    ) -> "OneStepModel":
        """Go on with a run that was stopped, to its end."""
        try:
            train(Path(folder), Distributed(device=find_device(device)), watch)
        except Interrupted:
            raise Interrupted(f"OneStepModel.resume({str(folder)!r})") from None
        return cls.load(folder, device)

    @classmethod
    def load(
        cls, folder: str | Path, device: str = "auto", *, so_far: bool = False
    ) -> "OneStepModel":
        """The generator of a run folder, ``so_far`` also of one whose training has not ended.

        Only JSON and safetensors are read.
        """
        config = run.read_config(Path(folder))
        kernel = run.read_weights(Path(folder), config, so_far).to(find_device(device))
        return cls(Path(folder), config, kernel)

    def save(self, folder: str | Path) -> None:
        """Copy the run folder to where it is to be kept."""
        run.copy(self.folder, Path(folder))

    def evaluate(
        self,
        n: int = 2000,
        seed: int = 0,
        reading: int = 0,
        steps: Iterable[int] = (1, 2, 4, 8, 16),
    ) -> dict[str, Any]:
        """Scores at each number of steps, beside those of held-out records."""
        from discrete_meanflow.model.eval_samples import EvaluateOptions  # which know models
        from discrete_meanflow.model.evaluate import evaluate

        return evaluate(self, EvaluateOptions(n, seed, tuple(steps), reading))

    def export(self, path: str | Path) -> float:
        """Write one ONNX graph, noise in, probabilities out; its largest difference from here."""
        from discrete_meanflow.model.export import export  # which takes models apart

        return export(self, Path(path))

    def sample(
        self,
        n: int,
        steps: int = 1,
        *,
        seed: int | None = None,
        clamp: Any = None,
        label: Any = None,
        guidance: float = 1.0,
        temperature: float | None = None,
        top_p: float | None = None,
        labels: bool = False,
    ) -> Any:
        """n records, each from ``steps`` forward passes; ``clamp`` is what is known of them:
        ``"ma??"``, ``{"colour": "red"}``, ``[0, None, 3]``.

        ``label`` is their class; ``labels`` asks for the class of each, too: records and classes.
        ``guidance`` above 1 makes them truer to what is known, and costs a second forward pass.
        """
        lots = self.tokens(
            n, steps, seed=seed, clamp=clamp, label=label, guidance=guidance,
            temperature=temperature, top_p=top_p,
        )  # fmt: skip
        codec, found = self.config.codec, torch.cat(list(lots))
        records = codec.bare.as_given(codec.decode(found))
        return (records, codec.classes_in(found)) if labels else records

    def tokens(
        self,
        n: int,
        steps: int = 1,
        *,
        seed: int | None = None,
        clamp: Any = None,
        label: Any = None,
        guidance: float = 1.0,
        temperature: float | None = None,
        top_p: float | None = None,
    ) -> Iterator[State]:
        """The tokens of n records, some at a time. A bad wish is refused at once."""
        for what, many in (("record", n), ("step", steps)):
            whole = isinstance(many, int | numpy.integer) and not isinstance(many, bool)
            if not whole or many < 1:
                raise InputError(f"sample: at least one {what}, a whole number, got {many!r}")
        numbers = {"seed": seed, "guidance": guidance, "temperature": temperature, "top_p": top_p}
        check_numbers("sample", numbers, {"seed"})
        if seed is not None and not 0 <= seed < 2**63:
            raise InputError(f"sample: a seed is a whole number from 0 to 2^63 - 1, got {seed}")
        changes = [] if temperature is None else [logits.temperature(temperature)]
        changes += [] if top_p is None else [logits.top_p(top_p)]
        if not 0 <= guidance <= MOST_GUIDANCE:
            raise InputError(f"sample: guidance from 0 up to {MOST_GUIDANCE:g}, got {guidance:g}")
        sampler = KernelSampler.steps(self.kernel, steps, changes, guidance)
        codec, device = self.config.codec, self.kernel.home.device
        tokens, held = codec.infill(clamp, None if label is None else str(label))
        if guidance != 1 and not bool(held.any()):
            raise InputError("sample: guidance needs a clamp or a class to be guided by")
        process = OneHotFlow(_any(codec.vocabulary, codec.length))
        g = torch.Generator(device)
        _ = g.seed() if seed is None else g.manual_seed(int(seed))
        lot = chunk_size(codec.length, codec.vocabulary, self.kernel.network)
        half = self.config.plan.sampled_in_half(device)

        def generate() -> Iterator[State]:
            for done in range(0, n, lot):
                some = min(lot, n - done)
                free = x = process.source((some, codec.length), g)
                clamped = None
                if bool(held.any()):
                    known, clamped = (each.to(device).expand(some, -1) for each in (tokens, held))
                    x = process.hold(free, known, clamped)
                with torch.autocast(device.type, torch.bfloat16, enabled=half):
                    found = sampler.sample(x, g, clamped, free if guidance != 1 else None)
                yield found.cpu()

        return generate()


def check_numbers(what: str, given: Mapping[str, Any], whole: Collection[str]) -> None:
    """Refuse what is no number, or no whole one where it must be; None stands for a default."""
    for name, value in given.items():
        kinds = int | numpy.integer if name in whole else int | float | numpy.number
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            sort = "a whole number" if name in whole else "a number"
            raise InputError(f"{what}: {name} must be {sort}, got {value!r}")


def _of_strings(kind: str | None, tokenizer: str | Path | None) -> Kind | None:
    """What strings are, where something is said of it."""
    if tokenizer is None:
        return None if kind is None else find_kind(kind)
    if not isinstance(tokenizer, str | Path):
        raise InputError(f"fit: tokenizer is the name of its JSON, got {type(tokenizer).__name__}")
    if kind not in (None, "lines", "tokenised"):
        raise InputError(f"fit: a tokenizer is for lines, not for {kind}")
    return Tokenised(Path(tokenizer))


def _any(vocabulary: int, length: int) -> TokenArray:
    """Data in name only: a source needs to know alphabet and length, and no more."""
    return TokenArray(torch.zeros(1, length, dtype=torch.long), vocabulary)
