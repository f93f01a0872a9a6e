"""From a dataset to a run folder: split, plan, data card."""

from collections.abc import Mapping
from pathlib import Path

from discrete_meanflow.data import TokenArray
from discrete_meanflow.data.split import (
    FEWEST_HELD_OUT,
    first_occurrences,
    split_off_end,
    train_test_split,
)
from discrete_meanflow.io.codec import Dataset
from discrete_meanflow.io.kind import Kind
from discrete_meanflow.model.options import FitOptions
from discrete_meanflow.model.pacing import plan_minutes, plan_steps
from discrete_meanflow.model.plan import Plan
from discrete_meanflow.model.plan_limits import check_size
from discrete_meanflow.model.run_folder import Config, create
from discrete_meanflow.model.sizing import choose_plan, default_size
from discrete_meanflow.model.warm_start import start_from
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.training import Distributed
from discrete_meanflow.types import State

LATE = 1.2  # times the requested time, from which a hint is printed
FEW_STEPS = 200  # per stage, below which samples are poor


def prepare(
    folder: Path,
    kind: Kind,
    dataset: Dataset,
    options: FitOptions,
    distributed: Distributed,
    notes: Mapping[str, str] | None = None,
    init: Path | None = None,
) -> tuple[Config, Json]:
    """Split the data, plan the training and write the run folder.

    Returns the config and the data card. ``notes`` are added to the card, such as the command.
    Training starts from the weights of the run ``init``, if there is one.
    """
    codec, device = dataset.codec, distributed.device
    train, held_out, counts = split_dataset(dataset, options.held_out, options.seed)
    card = {
        "kind": kind.name,
        **counts,
        "training records": len(train),
        "held-out records": len(held_out),
        **codec.card(dataset),
        **_hints(kind, dataset, len(held_out)),
        **(notes or {}),
    }
    size = default_size(codec, device, train.numel()) if options.size is None else options.size
    plan = choose_plan(codec, device, size, options, distributed.world_size)
    pace = start = None
    if init is not None:
        plan, start = start_from(init, plan, codec)
    if options.iterations is not None:
        plan = plan_steps(plan, codec, device, options.iterations)
    else:
        data = TokenArray(train, codec.vocabulary)
        minutes = options.minutes
        plan, pace = plan_minutes(plan, codec, data, device, minutes, distributed.world_size)
        card |= _time_hint(plan, minutes, pace.expected(plan))
    check_size(plan, codec)
    config = Config(kind, codec, plan)
    create(folder, config, card, train, held_out, pace, start)
    return config, card


def split_dataset(dataset: Dataset, held_out: int | None, seed: int) -> tuple[State, State, Json]:
    """Training records, held-out records, and how many records and duplicates there were."""
    tokens, codec = dataset.encoded(), dataset.codec
    counts = {"records": len(tokens)}
    if dataset.tokens is not None:
        once = len(first_occurrences(tokens))
        counts |= {"distinct": once, "duplicates kept": len(tokens) - once}
        return *split_off_end(tokens, held_out), counts
    keep_duplicates = codec.bare.repeats
    train, test, more = train_test_split(tokens, held_out, seed, keep_duplicates, codec.bare.length)
    return train, test, counts | more


def _time_hint(plan: Plan, minutes: float, taken: float) -> Json:
    """A hint for the user if the training time is short."""
    steps = ", ".join(f"{stage.steps} {stage.name} steps" for stage in plan.stages)
    if taken > LATE * minutes:
        return {"time": f"about {taken:.1f} minutes instead of {minutes:g}, for at least {steps}"}
    if min(stage.steps for stage in plan.stages) < FEW_STEPS:
        return {"time": f"enough for only {steps}, so samples may be poor; increase the minutes"}
    return {}


def _hints(kind: Kind, dataset: Dataset, held_out: int) -> Json:
    """Hints where the file may have been read differently than intended."""
    hints: Json = dict(kind.hints(dataset))
    if held_out < FEWEST_HELD_OUT:
        hints["evaluation"] = (
            f"needs at least {FEWEST_HELD_OUT} held-out records, there are {held_out}; use "
            "--held-out N"
        )
    return hints
