"""A few samples that show how training proceeds."""

import time
from collections.abc import Callable

from discrete_meanflow.model.data_card import shorten
from discrete_meanflow.model.options import SampleOptions
from discrete_meanflow.model.plan import TRAINING
from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.model.sampling import sample_tokens
from discrete_meanflow.run.progress import ProgressEvent

SHOW_EVERY = 30.0  # seconds
SHOWN = 5  # records


class SamplePreview:
    """Prints a line of samples every half minute."""

    def __init__(self, config: Config, print_line: Callable[[str], None]) -> None:
        self.config, self.print_line = config, print_line
        self.shown = time.monotonic()

    def __call__(self, event: ProgressEvent) -> None:
        if event.kernel is None or time.monotonic() - self.shown <= SHOW_EVERY:
            return
        self.shown = time.monotonic()
        # The teacher only learns short steps.
        is_student = event.iteration > self.config.plan.teacher_steps
        steps = 1 if is_student else TRAINING.teacher_ode_steps
        options = SampleOptions(SHOWN, steps, seed=0)
        tokens = next(sample_tokens(event.kernel(), self.config, options))
        records = "  ".join(shorten(record) for record in self.config.codec.decode(tokens))
        self.print_line(f"{event.iteration:>8}  {records}")
