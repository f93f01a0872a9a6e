"""What the scores of a table say, in words."""

import math
from collections.abc import Iterator

from discrete_meanflow.metric.privacy import CLOSEST
from discrete_meanflow.model.evaluation_grids import REAL
from discrete_meanflow.model.quality_grids import fewest_steps, worst_pairs
from discrete_meanflow.run.json_files import Json

MARGIN = 0.02  # of distances between columns, beside their sampling noise
SIGMAS = 4  # of the sampling noise of a privacy score
MOST_COLUMNS, MOST_PAIRS = 4, 2  # that are named


def verdict(quality: Json) -> list[str]:
    """A line on quality and one on privacy, of the samples of the fewest steps.

    Args:
        quality: without a verdict, see ``score_table``.
    """
    row = fewest_steps(quality)
    signs, private = list(_privacy_signs(quality, row)), quality["privacy"]
    at, floor = (private[name]["DCR median"] for name in (row, REAL))
    privacy = (
        f"samples reveal training rows: {', '.join(signs)}"
        if signs
        else "samples are no closer to training rows than held-out rows are"
    )
    return [
        f"Quality at {row}: {'; '.join(_on_quality(quality, row))}.",
        f"Privacy at {row}: {privacy}; median distance {at:.3g} (held out {floor:.3g}).",
    ]


def _on_quality(quality: Json, row: str) -> Iterator[str]:
    columns, limit = quality["columns"], MARGIN + 1 / math.sqrt(quality["rows"])
    off = [c for c in columns if c["distance"][row] - c["distance"][REAL] > limit]
    off.sort(key=lambda c: c["distance"][REAL] - c["distance"][row])
    if off:
        named = ", ".join(f"{c['name']} {c['distance'][row]:.2f}" for c in off[:MOST_COLUMNS])
        more = ", ..." * (len(off) > MOST_COLUMNS)
        yield f"{len(off)} of {len(columns)} columns differ from held-out rows ({named}{more})"
    else:
        yield "all columns have the shapes of held-out rows"
    pairs = [pair for pair in worst_pairs(quality)[:MOST_PAIRS] if pair[2] - pair[3] > limit]
    if pairs:
        named = ", ".join(f"{a} and {b} {tv:.2f} (held out {real:.2f})" for a, b, tv, real in pairs)
        yield f"pairs of columns differ most in {named}"
    else:
        yield "pairs of columns have their trends"


def _privacy_signs(quality: Json, row: str) -> Iterator[str]:
    """The privacy scores that are worse than those of held-out rows, beyond sampling noise."""
    scores, n, m = quality["privacy"][row], quality["rows"], quality["training rows"]
    copies = quality["privacy"][REAL]["copies"]
    if scores["very close"] > CLOSEST + SIGMAS * math.sqrt(2 * CLOSEST / n):
        yield f"{scores['very close']:.1%} of them are very close to one (expected 1 %)"
    if scores["membership AUC"] > 0.5 + SIGMAS * math.sqrt((m + n + 1) / (12 * m * n)):
        yield f"membership inference succeeds (AUC {scores['membership AUC']:.2f})"
    if scores["copies"] > copies + SIGMAS * math.sqrt(2 * max(copies, 1 / n) / n):
        yield f"{scores['copies']:.1%} are copies (held out {copies:.1%})"
