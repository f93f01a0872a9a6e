"""What a plan may contain. A plan is read from JSON, which may contain anything."""

from dataclasses import fields
from typing import TYPE_CHECKING

from discrete_meanflow.data.tokens import token_dtype
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.codec import Codec
from discrete_meanflow.model import options

if TYPE_CHECKING:
    from discrete_meanflow.model.plan import Plan

BLOCK_BYTES = 2**28  # of the continuous states that are drawn at once
LARGEST_STEP_BYTES = 2**36  # of one step: no machine has more memory
MOST_LAYERS = 1000
MOST_PAIRS = 1_000_000
LARGEST = {
    "batch": options.LARGEST_BATCH,
    "teacher_pairs": MOST_PAIRS,
    "seed": options.LARGEST_SEED,
    "minibatch_ot": 2**12,
}
MAY_BE_0 = (
    *("heads", "seed", "bf16", "compiled", "learning_rate"),
    *("minibatch_ot", "muon_ratio", "student_steps", "teacher_pairs", "matching_steps"),
)


def check_plan(plan: "Plan") -> None:
    """Raise unless every number is of its type and in its range, and fits the method."""
    distilled = plan.system.distilled
    for field in fields(plan):
        if field.type is not str:
            _check_number(field.name, field.type, getattr(plan, field.name))
    if plan.matching_steps and plan.minibatch_ot:
        raise InputError("plan: matching_steps needs minibatch_ot 0")
    if bool(plan.student_steps) != distilled or bool(plan.teacher_pairs) != distilled:
        raise InputError(
            f"plan: method {plan.method} has {plan.student_steps} student steps and "
            f"{plan.teacher_pairs} teacher pairs"
        )
    if not distilled and (plan.matching_steps or plan.minibatch_ot):
        raise InputError(f"plan: method {plan.method} has no distribution matching or OT")
    if plan.parameters > options.LARGEST_SIZE or plan.layers > MOST_LAYERS:
        raise InputError(
            f"plan: {plan.parameters:.3g} parameters, {plan.layers} layers; at most "
            f"{options.LARGEST_SIZE:.0e} and {MOST_LAYERS}"
        )


def _check_number(name: str, kind: object, value: object) -> None:
    # True counts as a number in Python, and 3.0 is not a count.
    whole = isinstance(value, int) and not isinstance(value, bool)
    fits = {int: whole, float: whole or isinstance(value, float), bool: isinstance(value, bool)}
    if not fits[kind]:  # type: ignore[index]
        raise InputError(f"plan: {name} cannot be {value!r}")
    assert isinstance(value, int | float)
    if not (name not in MAY_BE_0) <= value <= LARGEST.get(name, options.LARGEST_STEPS):
        raise InputError(f"plan: {name} cannot be {value}")


def check_size(plan: "Plan", codec: Codec) -> None:
    """Raise if the training paths or the teacher pairs do not fit into any memory."""
    paths = plan.block * step_bytes(plan, codec)
    largest = LARGEST_STEP_BYTES if plan.block == 1 else 0
    if paths > max(BLOCK_BYTES, largest):
        raise InputError(f"plan: {plan.block} steps of {plan.batch} take {paths:,} bytes")
    pairs = plan.teacher_pairs * pair_bytes(codec)
    if pairs > LARGEST_STEP_BYTES:
        raise InputError(f"plan: {plan.teacher_pairs} teacher pairs take {pairs:,} bytes")


def step_bytes(plan: "Plan", codec: Codec) -> int:
    """Bytes of the training paths of a step: starts, with the third stage also noise."""
    points = codec.vocabulary * codec.length * (4 if plan.matching_steps else 1)
    return plan.batch * 4 * (points + plan.minibatch_ot)


def pair_bytes(codec: Codec) -> int:
    """Bytes of a teacher pair: its start, its end as symbols, observed positions."""
    number = 4 if codec.ordered else 2
    return codec.length * (number * codec.vocabulary + token_dtype(codec.vocabulary).itemsize + 1)
