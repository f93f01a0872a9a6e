"""The tables of an evaluation, as ``dmf evaluate`` prints them and reports show them."""

from typing import Any

from discrete_meanflow.model.grid import Cell, Grid

Json = dict[str, Any]
REAL = "held out"  # the row of the table that shows the score of real data
STEPS = ("1 step", "4 steps", "16 steps")  # of conditional samples
MOST_CLASSES = 12  # that are shown
NOTE = (
    "'held out' is the score of real data, which a perfect generator would reach. Copies are an\n"
    "exception for deduplicated strings: held-out ones never occur in training, generated ones may."
)
COMPLETIONS_NOTE = "in parentheses: unconditional samples, scored at the same positions"
CLASS_NOTE = (
    "accuracy: mean over classes of the fraction of samples in which a random forest, trained on\n"
    "real records, finds the class; in parentheses relative to held-out records"
)


def scores_grid(scores: Json) -> Grid:
    """One row for each number of steps, one column for each score."""
    names = tuple(scores[REAL])
    rows = [
        (Cell(row), *(Cell.decimals(values[name]) for name in names))
        for row, values in scores.items()
    ]
    return Grid(("", *names), tuple(rows))


def completions_grid(fractions: Json) -> Grid:
    """For each score one row per fraction of observed positions, one column per number of steps.

    In parentheses: unconditional samples.
    """
    first = next(iter(fractions.values()))["scores"]
    rows = [
        (Cell(score * (i == 0)), Cell(name), *_completion_cells(fraction["scores"], score))
        for score in first[REAL]
        for i, (name, fraction) in enumerate(fractions.items())
    ]
    return Grid(("", "observed", REAL, *STEPS), tuple(rows))


def _completion_cells(rows: Json, score: str) -> tuple[Cell, ...]:
    others = [rows.get(f"unconditional, {step}", {}).get(score) for step in STEPS]
    cells = [
        Cell.beside(rows[step][score], other) for step, other in zip(STEPS, others, strict=True)
    ]
    return Cell.decimals(rows[REAL][score]), *cells


def class_grid(scores: Json) -> Grid:
    """The mean over classes at each number of steps, then each class at one step.

    Of many classes only those with the lowest accuracy are shown.
    """
    real, rows = scores[REAL], []
    for step in STEPS:
        guided = [scores.get(f"{step}, guidance {w}", {}) for w in (1, 2)]
        means = [
            Cell.beside(score.get("accuracy"), score.get("ratio to held out"), 2)
            for score in guided
        ]
        rows.append((Cell(f"mean, {step}"), Cell.decimals(real["accuracy"]), *means))
    one, two = (scores.get(f"1 step, guidance {w}", {}).get("per class", {}) for w in (1, 2))
    for name in shown_classes(scores):
        accuracies = (real["per class"].get(name), one[name], two.get(name))
        rows.append((Cell(name), *map(Cell.decimals, accuracies)))
    return Grid(("class", REAL, "no guidance", "guidance 2"), tuple(rows))


def shown_classes(scores: Json) -> list[str]:
    """All classes if they are few, else those with the lowest accuracy at one step."""
    accuracy = scores["1 step, guidance 1"]["per class"]
    if len(accuracy) <= MOST_CLASSES:
        return list(accuracy)
    return sorted(accuracy, key=lambda name: accuracy[name])[:MOST_CLASSES]
