"""``dmf sample``: generate records."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from discrete_meanflow.cli.options import Device, Flag, RunFolder, build, optional
from discrete_meanflow.errors import InputError
from discrete_meanflow.model.options import SampleOptions

INFILL = (
    "Known part of the records: 'ma??' for text (? is unknown, \\? a question mark, \\\\ a "
    "backslash), 'colour=red' for tables, '0,?,3' for arrays."
)
GUIDANCE = (
    "Classifier-free guidance scale for --infill and --class; 1 disables it, other values take a "
    "second forward pass."
)


@dataclass(frozen=True)
class Sample:
    """Generate records with a trained run."""

    run: RunFolder
    """Run folder."""
    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = SampleOptions.n
    """Number of records."""
    steps: int = SampleOptions.steps
    """Forward passes per record."""
    seed: Annotated[int | None, optional("N")] = SampleOptions.seed
    """Random seed; the same seed gives the same records."""
    infill: Annotated[str | None, optional("TEXT", text=INFILL)] = None
    label: Annotated[str | None, optional("NAME", "class")] = None
    """Class of the records, if the run was trained with classes."""
    guidance: Annotated[float, tyro.conf.arg(help=GUIDANCE)] = SampleOptions.guidance
    temperature: Annotated[float | None, optional("X")] = SampleOptions.temperature
    """Softmax temperature."""
    top_p: Annotated[float | None, optional("X")] = SampleOptions.top_p
    """Nucleus sampling: keep the most likely symbols with this total probability."""
    out: Annotated[Path | None, optional("PATH")] = None
    """Output file in the format of the training file; overwrites (default: print)."""
    save_classes: Annotated[Path | None, optional("FILE")] = None
    """Output file for the class of each record, one per line."""
    from_checkpoint: Annotated[bool, Flag] = False
    """Use the newest checkpoint of a run that is not finished."""
    device: Device = "auto"
    """Device to sample on."""

    def __call__(self) -> None:
        from discrete_meanflow.data.kind import Lines
        from discrete_meanflow.model import OneStepModel
        from discrete_meanflow.model.sampling import sample_tokens

        options = build(SampleOptions, self)
        model = OneStepModel.load(self.run, self.device, from_checkpoint=self.from_checkpoint)
        codec, kind = model.config.codec, model.config.kind
        chunks = sample_tokens(model.kernel, model.config, options)
        if self.save_classes is not None:
            if not codec.class_positions:
                raise InputError("--save-classes: this run was trained without classes")
            if self.out is not None and self.out.resolve() == self.save_classes.resolve():
                raise InputError("--out and --save-classes must be different files")
        with ExitStack() as files:
            # The classes first: a broken pipe of the records ends all that follows.
            if self.save_classes is not None:
                write_classes = files.enter_context(
                    Lines().writer(self.save_classes, codec, self.n)
                )
            write = files.enter_context(kind.writer(self.out, codec.bare, self.n))
            for tokens in chunks:
                if self.save_classes is not None:
                    write_classes(codec.classes_in(tokens))
                write(codec.decode(tokens))
        if self.out is not None:
            print(f"{self.n:,} records: {self.out}", file=sys.stderr)
