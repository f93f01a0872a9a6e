"""The data card of a run as lines of text."""

from collections.abc import Iterator
from typing import Any

from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.run.json_files import Json

WIDTH, DICT_WIDTH = 100, 600  # characters of a value, and of many values by name


def card_lines(card: Json, config: Config, device: str) -> Iterator[str]:
    """The data card and the plan."""
    for key, value in card.items():
        yield f"{key}: {shorten(value)}"
    codec, plan = config.codec, config.plan
    yield (
        f"network: {plan.parameter_count(codec):,} parameters on {device}; {plan.teacher_steps:,} "
        f"teacher steps with batch {plan.batch}, then {plan.student_steps:,} student steps with "
        f"{plan.teacher_pairs:,} teacher pairs"
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
