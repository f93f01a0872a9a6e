"""``dmf sample``: generate records."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from discrete_meanflow.cli.options import (
    Flag,
    OptionalPath,
    OptionalRunFolder,
    embedded,
)
from discrete_meanflow.errors import InputError
from discrete_meanflow.model.options import Device, SampleOptions, optional
from discrete_meanflow.pretrained import pretrained_folder, pretrained_names
from discrete_meanflow.run.progress import say

if TYPE_CHECKING:
    from discrete_meanflow.model.run_folder import Config
    from discrete_meanflow.model.samples import Samples


@dataclass(frozen=True)
class Sample:
    """Generate records with a trained run."""

    run: OptionalRunFolder = None
    """Run folder; or --pretrained."""
    pretrained: Annotated[str | None, tyro.conf.arg(**optional("NAME"))] = None
    """Model that ships with the package, instead of a run folder: names."""
    options: Annotated[SampleOptions, embedded(SampleOptions)] = field(
        default_factory=SampleOptions
    )
    out: OptionalPath = None
    """Output file in the format of the training file; overwrites (default: print)."""
    save_classes: OptionalPath = None
    """Output file for the class of each record, one per line."""
    from_checkpoint: Annotated[bool, Flag] = False
    """Use the newest checkpoint of a run that is not finished."""
    device: Device = "auto"
    """Device to sample on."""

    def __call__(self) -> None:
        from discrete_meanflow.model.conditions import read_conditions
        from discrete_meanflow.model.one_step_model import OneStepModel
        from discrete_meanflow.model.samples import Samples, read_requirements
        from discrete_meanflow.model.training_record import sampling_note

        run = self._folder()
        model = OneStepModel.load(run, self.device, from_checkpoint=self.from_checkpoint)
        codec, options = model.config.codec, self.options
        requirements = read_requirements(run, codec, options.constraints)
        conditions = read_conditions(codec, options, requirements=requirements)
        samples = Samples(model.kernel, model.config, options, conditions)
        if self.save_classes is not None:
            if not codec.class_positions:
                raise InputError("--save-classes: this run was trained without classes")
            if self.out is not None and realpath(self.out) == realpath(self.save_classes):
                raise InputError("--out and --save-classes must be different files")
        note = sampling_note(run, model.config, options.steps, options.refine)
        if not self._write(model.config, samples, note):
            return
        if samples.note is not None:
            say(f"note: {samples.note}")
        if self.out is not None:
            say(f"{conditions.total:,} records: {self.out}")

    def _folder(self) -> Path:
        """The run folder, or that of the pretrained model."""
        if self.run is not None and self.pretrained is not None:
            raise InputError("give a run folder or --pretrained, not both")
        if self.run is not None:
            return self.run
        if self.pretrained is None:
            names = ", ".join(pretrained_names())
            raise InputError(f"sample needs a run folder, or --pretrained with one of: {names}")
        return pretrained_folder(self.pretrained)

    def _write(self, config: "Config", samples: "Samples", note: str | None) -> bool:
        """Write all records; False if the reader of a pipe left before the end."""
        from discrete_meanflow.io.text_kinds import Lines

        codec, write_classes = config.codec, None
        count = samples.conditions.total
        with ExitStack() as files:
            # The classes first: a broken pipe of the records ends all that follows.
            if self.save_classes is not None:
                write_classes = files.enter_context(Lines().writer(self.save_classes, codec, count))
            write = files.enter_context(config.kind.writer(self.out, codec.bare, count))
            if note is not None:  # not before the files are open: an error is one line
                say(f"note: {note}")
            for records, tokens in samples:
                if write_classes is not None:
                    try:
                        write_classes(codec.classes_in(tokens))
                    except BrokenPipeError:
                        write_classes = None  # its reader has enough; the records go on
                write(records)
            return True
        return False
