"""``dmf sample``: generate records."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from os.path import realpath
from typing import Annotated

from discrete_meanflow.cli.options import Flag, OptionalPath, RunFolder, embedded
from discrete_meanflow.errors import InputError
from discrete_meanflow.model.options import Device, SampleOptions


@dataclass(frozen=True)
class Sample:
    """Generate records with a trained run."""

    run: RunFolder
    """Run folder."""
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
        from discrete_meanflow.data.kind import Lines
        from discrete_meanflow.model.conditions import read_conditions
        from discrete_meanflow.model.one_step_model import OneStepModel
        from discrete_meanflow.model.sampling import sample_tokens

        model = OneStepModel.load(self.run, self.device, from_checkpoint=self.from_checkpoint)
        codec, kind = model.config.codec, model.config.kind
        conditions = read_conditions(codec, self.options)
        chunks = sample_tokens(model.kernel, model.config, self.options, conditions)
        n = conditions.total
        if self.save_classes is not None:
            if not codec.class_positions:
                raise InputError("--save-classes: this run was trained without classes")
            if self.out is not None and realpath(self.out) == realpath(self.save_classes):
                raise InputError("--out and --save-classes must be different files")
        complete = False
        with ExitStack() as files:
            # The classes first: a broken pipe of the records ends all that follows.
            write_classes = None
            if self.save_classes is not None:
                write_classes = files.enter_context(Lines().writer(self.save_classes, codec, n))
            write = files.enter_context(kind.writer(self.out, codec.bare, n))
            for tokens in chunks:
                if write_classes is not None:
                    try:
                        write_classes(codec.classes_in(tokens))
                    except BrokenPipeError:
                        write_classes = None  # its reader has enough; the records go on
                write(codec.decode(tokens))
            complete = True
        if self.out is not None and complete:
            print(f"{n:,} records: {self.out}", file=sys.stderr)
