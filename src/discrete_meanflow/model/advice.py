"""Advice on the number of steps of conditional samples."""

from discrete_meanflow.model.completions import AUC
from discrete_meanflow.model.conditional_samples import STEPS
from discrete_meanflow.model.eval_samples import row_name
from discrete_meanflow.run.json_files import Json

MARGIN = 0.03  # by which the AUC or accuracy at one step may be worse without advice
FEWEST_RECORDS = 200  # with fewer, the noise of the AUC exceeds the margin
FEWEST_CLASS_SAMPLES = 1000  # the same for the accuracy


def advise(completions: Json, classes: Json, records: int) -> list[str]:
    """One line for each kind of conditional samples that gains from more steps.

    Args:
        completions: scores of completions.
        classes: scores of samples with a class; empty without classes.
        records: number of completions in each set.
    """
    advice = []
    if "fractions" in completions and records >= FEWEST_RECORDS:
        auc = mean_auc(completions)
        if (k := sufficient_steps(auc)) > 1:
            advice.append(
                f"Conditional samples gain from more steps: {AUC} {auc[1]:.2f} at 1 step, "
                f"{auc[k]:.2f} at {k}; use dmf sample RUN --infill ... --steps {k}"
            )
    if classes and classes["samples"] >= FEWEST_CLASS_SAMPLES:
        scores = classes["scores"]
        accuracy = {k: scores[f"{row_name(k)}, guidance 1"]["accuracy"] for k in STEPS}
        if (k := sufficient_steps({steps: -value for steps, value in accuracy.items()})) > 1:
            advice.append(
                f"Samples with a class gain from more steps: accuracy {accuracy[1]:.2f} at 1 step, "
                f"{accuracy[k]:.2f} at {k}; use dmf sample RUN --class ... --steps {k}"
            )
    return advice


def mean_auc(completions: Json) -> dict[int, float]:
    """C2ST AUC of completions by number of steps, averaged over the observed fractions."""
    scores = [fraction["scores"] for fraction in completions["fractions"].values()]
    return {k: sum(rows[row_name(k)][AUC] for rows in scores) / len(scores) for k in STEPS}


def sufficient_steps(costs: dict[int, float]) -> int:
    """The smallest number of steps whose cost exceeds the lowest by at most ``MARGIN``."""
    return min(k for k, cost in costs.items() if cost <= min(costs.values()) + MARGIN)
