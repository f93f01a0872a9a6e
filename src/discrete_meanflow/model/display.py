"""What ``dmf train`` prints: the data card of a run, and a few samples during training."""

import time
from collections.abc import Iterator
from typing import Any

from discrete_meanflow.model.options import SampleOptions
from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.model.sampling import sample_tokens
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.run.progress import ProgressEvent

WIDTH, DICT_WIDTH = 100, 600  # characters of a value, and of many values by name
SHOW_EVERY = 30.0  # seconds between samples
SHOWN = 5  # records


def card_lines(card: Json, config: Config, device: str) -> Iterator[str]:
    """The data card and the plan."""
    for key, value in card.items():
        if value is not None and value != 0:
            yield f"{key}: {shorten(value)}"
    codec, plan = config.codec, config.plan
    stages = ", ".join(f"{stage.steps:,} {stage.name} steps" for stage in plan.stages)
    pairs = f", {plan.teacher_pairs:,} teacher pairs" * bool(plan.teacher_pairs)
    yield (
        f"network: {plan.parameter_count(codec):,} parameters on {device}; {stages} with batch "
        f"{plan.batch}{pairs}"
    )


def shorten(value: Any) -> str:
    """A value on one line, cut if it is long."""
    if isinstance(value, dict):
        text = ", ".join(f"{name} {item}" for name, item in value.items())
    elif isinstance(value, list):
        text = ",".join(map(str, value))
    elif hasattr(value, "ravel"):  # an array
        text = " ".join(map(str, value.ravel().tolist()))
    else:
        text = str(value)
    text = text.replace("\n", "\\n").replace("\t", "\\t")
    width = DICT_WIDTH if isinstance(value, dict) else WIDTH
    return text if len(text) <= width else text[: width - 3] + "..."


class SamplePreview:
    """Returns a line of samples every half minute, otherwise None."""

    def __init__(self, config: Config) -> None:
        self.config, self.shown = config, time.monotonic()

    def __call__(self, event: ProgressEvent) -> str | None:
        if event.kernel is None or time.monotonic() - self.shown <= SHOW_EVERY:
            return None
        self.shown = time.monotonic()
        plan = self.config.plan
        # The teacher of a distilled flow map only learns short steps.
        is_teacher = plan.system.distilled and event.iteration <= plan.teacher_steps
        steps = plan.ode_steps if is_teacher else plan.default_steps(self.config.codec)
        options = SampleOptions(SHOWN, steps, seed=0)
        tokens = next(sample_tokens(event.kernel(), self.config, options))
        records = "  ".join(shorten(record) for record in self.config.codec.decode(tokens))
        return f"samples at step {event.iteration:,} (steps={steps}):  {records}"
