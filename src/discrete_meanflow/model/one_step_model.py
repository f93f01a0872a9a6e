"""A generator that needs one forward pass."""

import shutil
import tempfile
import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from discrete_meanflow.device import find_device
from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.files import check_path
from discrete_meanflow.io.from_python import (
    dataset_from_python,
    patterns_from_python,
    rows_from_python,
)
from discrete_meanflow.io.kind import Kind
from discrete_meanflow.io.kinds import find_kind
from discrete_meanflow.io.labelled_codec import add_classes
from discrete_meanflow.io.text_kinds import Tokenised
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.metric.forest import check_scikit_learn
from discrete_meanflow.model import run_folder
from discrete_meanflow.model.conditions import read_conditions
from discrete_meanflow.model.eval_samples import draw
from discrete_meanflow.model.evaluate import evaluate
from discrete_meanflow.model.export import export
from discrete_meanflow.model.fill import Holes, fill, table_codec
from discrete_meanflow.model.options import (
    Device,
    EvaluateOptions,
    FitOptions,
    Matching,
    MethodName,
    SampleOptions,
    check_flag,
)
from discrete_meanflow.model.prepare import prepare
from discrete_meanflow.model.run_folder import Config, read_config, read_weights
from discrete_meanflow.model.samples import Samples, read_requirements
from discrete_meanflow.model.table_quality import check_target
from discrete_meanflow.model.train import train
from discrete_meanflow.model.training_record import divergence_note, sampling_note, steps_done
from discrete_meanflow.printable import shown
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.run.progress import OnProgress, shown_progress
from discrete_meanflow.training import Distributed
from discrete_meanflow.types import Tokens


class OneStepModel:
    """A trained kernel, and the codec that turns its tokens into records.

    Example::

        model = OneStepModel.fit(names, minutes=5)
        model.sample(5, infill="ma??")
    """

    def __init__(self, folder: Path, config: Config, kernel: Kernel) -> None:
        self.folder, self.config, self.kernel = folder, config, kernel
        self._warned = False
        self.acceptance: float | None = None

    def __repr__(self) -> str:
        codec, kernel = self.config.codec, self.kernel
        count = self.config.plan.parameter_count(codec)
        return (
            f"OneStepModel({self.config.kind.name}, {codec.length} positions of "
            f"{codec.vocabulary} symbols, {count:,} parameters on {kernel.device}, "
            f"{str(self.folder)!r})"
        )

    @classmethod
    def fit(
        cls,
        records: Any,
        minutes: float = FitOptions.minutes,
        *,
        iterations: int | None = FitOptions.iterations,
        size: float | None = FitOptions.size,
        batch: int | None = FitOptions.batch,
        accumulate: int = FitOptions.accumulate,
        method: MethodName = FitOptions.method,
        matching: Matching = FitOptions.matching,
        seed: int = FitOptions.seed,
        held_out: int | None = FitOptions.held_out,
        device: Device = FitOptions.device,
        out: str | Path | None = None,
        labels: Any = None,
        kind: str | None = None,
        tokenizer: str | Path | None = None,
        columns: Mapping[str, str] | None = None,
        constraints: Sequence[str] = (),
        drop: Sequence[str] = (),
        on_progress: OnProgress | None = None,
    ) -> "OneStepModel":
        """Train on records.

        Args:
            records: strings, rows, an array of whole numbers, a pandas or polars frame, an
                Arrow table, or a PyTorch dataset.
            minutes: training time; the number of steps is chosen to fill it.
            iterations: number of optimiser steps, instead of a time.
            size: parameters of the network; by default chosen from data and device.
            batch: records per step; by default chosen from data and device.
            accumulate: gradient accumulation steps.
            method: system to train; ``docs/choosing.md`` compares them.
            matching: whether to train the third stage, distribution matching: auto, yes or no.
            seed: random seed for the split, initialisation and training.
            held_out: records kept for :meth:`evaluate`; by default 15 %, at most 10,000.
            device: auto, cpu or cuda.
            out: run folder; by default a temporary one, deleted with the model.
            labels: the class of each record, or the column that contains it.
            kind: what strings are: lines (default), smiles or fasta.
            tokenizer: a Hugging Face tokenizers JSON; strings become subwords.
            columns: ``levels`` or ``number`` for columns that are not what they look like.
            constraints: what all generated rows satisfy: ``a<=b``, ``together(a,b)`` for
                combinations that occur in the training data, ``unique(a)`` for a key.
            drop: columns to leave out, such as row identifiers.
            on_progress: called with a ``ProgressEvent`` after each block of steps; by default
                progress is shown on a terminal and in a notebook.
        """
        options = FitOptions(
            minutes, iterations, size, batch, accumulate, method, matching, seed, held_out, device
        )
        chosen, dataset = dataset_from_python(
            records, _string_kind(kind, tokenizer), columns, _as_tuple("drop", drop)
        )
        codec = dataset.codec.with_constraints(_as_tuple("constraints", constraints))
        dataset = replace(dataset, codec=codec)
        if labels is not None:
            dataset = add_classes(dataset, labels)
        if on_progress is not None and not callable(on_progress):
            raise InputError(f"on_progress must be a function, got {shown(on_progress)}")
        distributed = Distributed(device=find_device(options.device))
        temporary = Path(tempfile.mkdtemp(prefix="dmf-")) if out is None else None
        folder = check_path(out) if temporary is None else temporary / "run"
        try:
            run_folder.check_new_folder(folder)
            with shown_progress(folder.name, 0.0, on_progress) as show:
                config, card = prepare(folder, chosen, dataset, options, distributed)
                for hint in ("time", "warning"):
                    if hint in card:
                        warnings.warn(f"fit: {card[hint]}", stacklevel=2)
                model = cls._train(folder, config, distributed, show)
        except BaseException as error:
            saved = (folder / run_folder.CHECKPOINTS[0]).exists()  # which the error names
            if temporary is not None and not saved and not isinstance(error, Interrupted):
                shutil.rmtree(temporary, ignore_errors=True)
            raise
        if temporary is not None:
            weakref.finalize(model, shutil.rmtree, temporary, ignore_errors=True)
        return model

    @classmethod
    def resume(
        cls, folder: str | Path, device: str = "auto", on_progress: OnProgress | None = None
    ) -> "OneStepModel":
        """Continue a run that was stopped, to its end."""
        folder = check_path(folder)
        distributed, config = Distributed(device=find_device(device)), read_config(folder)
        done = config.plan.work_done(steps_done(folder, config.plan), 0)
        with shown_progress(folder.name, done, on_progress) as show:
            return cls._train(folder, config, distributed, show)

    @classmethod
    def _train(
        cls, folder: Path, config: Config, distributed: Distributed, on_progress: OnProgress
    ) -> "OneStepModel":
        try:
            train(folder, config, distributed, on_progress)
        except Interrupted:
            raise Interrupted(f"OneStepModel.resume({str(folder)!r})") from None
        if note := divergence_note(folder):
            warnings.warn(note, stacklevel=3)
        config = read_config(folder)  # the steps may have been revised
        return cls(folder, config, read_weights(folder, config).to(distributed.device))

    @classmethod
    def load(
        cls, folder: str | Path, device: str = "auto", *, from_checkpoint: bool = False
    ) -> "OneStepModel":
        """Load a run folder. Only JSON and safetensors are read.

        Args:
            folder: the run folder.
            device: auto, cpu or cuda.
            from_checkpoint: use the newest checkpoint if training is not finished.
        """
        folder = check_path(folder)
        check_flag("from_checkpoint", from_checkpoint)
        config = read_config(folder)
        kernel = read_weights(folder, config, from_checkpoint).to(find_device(device))
        return cls(folder, config, kernel)

    def save(self, folder: str | Path) -> None:
        """Copy the run folder."""
        run_folder.copy(self.folder, check_path(folder))

    def sample(
        self,
        n: int = 1,
        steps: int | None = SampleOptions.steps,
        *,
        seed: int | None = None,
        infill: Any = None,
        conditions: Any = None,
        constraints: Sequence[str] = (),
        label: Any = None,
        guidance: float = SampleOptions.guidance,
        temperature: float | None = None,
        top_p: float | None = None,
        refine: bool = SampleOptions.refine,
        labels: bool = False,
    ) -> Any:
        """Generate records in the form in which they were given to :meth:`fit`.

        Args:
            n: number of records, for each of the ``conditions`` if there are any.
            steps: function evaluations per record; by default 1, or what the method needs.
            seed: random seed; by default a new one each time.
            infill: known part of the records: ``"ma??"``, ``{"colour": "red", "age": ">=60"}``,
                ``[0, None, 3]``.
            conditions: a frame whose missing cells are generated, or a list of patterns as for
                ``infill``.
            constraints: what all rows satisfy besides the constraints of :meth:`fit`. Afterwards
                ``acceptance`` is the fraction of draws that satisfied ranges, sets and constraints.
            label: class of the records.
            guidance: classifier-free guidance scale for ``infill`` and ``label``; 1 disables it,
                other values take a second forward pass.
            temperature: softmax temperature.
            top_p: nucleus sampling: keep the most likely symbols with this total probability.
            refine: whether each step generates whole records, given the confident positions of
                the step before.
            labels: whether to return ``(records, classes)``.
        """
        check_flag("labels", labels)
        options = SampleOptions(
            n,
            steps,
            seed,
            infill=() if infill is None else (infill,),
            constraints=_as_tuple("constraints", constraints),
            label=label,
            guidance=guidance,
            temperature=temperature,
            top_p=top_p,
            refine=refine,
        )
        patterns = None if conditions is None else patterns_from_python(conditions)
        records, tokens = self._draw(options, patterns)
        note = (
            None if self._warned else sampling_note(self.folder, self.config, options.steps, refine)
        )
        if note is not None:
            warnings.warn(note, stacklevel=2)
            self._warned = True
        codec = self.config.codec
        records = codec.bare.as_given(records)
        return (records, codec.classes_in(tokens)) if labels else records

    def _draw(self, options: SampleOptions, patterns: Sequence[Any] | None) -> tuple[Any, Tokens]:
        """Records as the codec decodes them, and their tokens."""
        codec = self.config.codec
        requirements = read_requirements(self.folder, codec, options.constraints)
        conditions = read_conditions(codec, options, patterns, requirements)
        samples = Samples(self.kernel, self.config, options, conditions)
        drawn = samples.all()
        self.acceptance = None if samples.rejection is None else samples.rejection.acceptance
        if samples.rejection is not None and samples.rejection.from_pool:
            warnings.warn(f"sample: {samples.note}", stacklevel=3)
        return drawn

    def fill(
        self, rows: Any, draws: int = 1, steps: int | None = None, *, seed: int | None = None
    ) -> Any:
        """Fill the missing cells of a frame or of rows, each row given its other cells.

        Args:
            rows: a pandas or polars frame, or a list of rows in the order of the columns; None and
                NaN are missing. A column that the frame lacks is missing in all rows.
            draws: completed rows for each row, one after the other.
            steps: function evaluations per row; by default 1, or what the method needs.
            seed: random seed; by default a new one each time.
        """
        codec = table_codec(self.config)
        names, cells = rows_from_python(rows, codec.names)
        holes = Holes.of(codec, names, cells)
        options = SampleOptions(draws, steps, seed)
        return codec.as_given(fill(self.folder, self.kernel, self.config, holes, options))

    def evaluate(
        self,
        n: int = EvaluateOptions.n,
        steps: Iterable[int] = EvaluateOptions.steps,
        *,
        seed: int = EvaluateOptions.seed,
        lm_steps: int = EvaluateOptions.lm_steps,
        target: str | None = None,
    ) -> Json:
        """Compare samples with held-out records at each number of steps.

        Completions of held-out records and samples of each class are scored at 1, 4 and 16 steps.

        Args:
            n: records at each number of steps.
            steps: numbers of function evaluations of unconditional samples.
            seed: random seed of the samples.
            lm_steps: training steps of a reference language model that measures bits per symbol.
            target: column of a table whose prediction measures the utility of samples.
        """
        options = EvaluateOptions(n, cast("tuple[int, ...]", steps), seed, lm_steps)
        kept = self.config.plan.evaluated_steps(self.config.codec, options.steps)
        options = replace(options, steps=kept)
        check_target(self.config.codec, target)
        check_scikit_learn()  # samples that cannot be scored would be lost
        samples = draw(self.folder, self.config, self.kernel, options)
        return evaluate(self.folder, self.config, samples, target)

    def export(self, path: str | Path) -> float:
        """Write one ONNX graph, noise in, probabilities out; return its error against PyTorch."""
        return export(self.kernel, self.config, check_path(path))


def _as_tuple(option: str, values: Sequence[str]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise InputError(f"{option} must be a list, such as ['{values}']")
    if not isinstance(values, Sequence) or not all(isinstance(x, str) for x in values):
        raise InputError(f"{option} must be a list of strings, got {shown(values)}")
    return tuple(values)


def _string_kind(kind: str | None, tokenizer: str | Path | None) -> Kind | None:
    """The kind of strings, if the user names one."""
    if tokenizer is None:
        return None if kind is None else find_kind(kind)
    if kind not in (None, "lines", "tokenised"):
        raise InputError(f"a tokenizer is for lines, not for {kind}")
    return Tokenised(check_path(tokenizer))
