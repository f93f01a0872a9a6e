"""Score completions of held-out records."""

import torch
from torch import Tensor

from discrete_meanflow.data.tokens import token_dtype
from discrete_meanflow.io.codec import Codec
from discrete_meanflow.metric import conditional
from discrete_meanflow.model.conditional_samples import (
    STEPS,
    completion_name,
    masks,
    observed_counts,
)
from discrete_meanflow.model.eval_samples import EvalSamples, EvalSplit, row_name
from discrete_meanflow.model.evaluation_grids import REAL
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.types import State

AUC, PAIR_TV, UNSEEN = "C2ST AUC", "pair TV", "unseen pairs"
COMPLETION_SCORES = {
    AUC: "AUC of a classifier that separates completions from held-out records",
    PAIR_TV: "total variation distance of pairs of an observed and a generated symbol",
    UNSEEN: "fraction of such pairs that never occur at their positions in training",
}
COMPLETED = {row_name(k): k for k in STEPS}  # rows of completions
UNCONDITIONAL = "unconditional, "  # precedes the rows of unconditional samples
BEGINNINGS = "the method conditions on the beginnings of records only"
ONE_POSITION = "records of one position have nothing to condition on"


def score_completions(
    codec: Codec, train: State, split: EvalSplit, samples: EvalSamples, scores: Json
) -> Json:
    """Scores of completions by fraction of observed positions and number of steps.

    Beside them: the scores of the held-out records themselves, which a perfect generator would
    reach, and of unconditional samples, as if the same positions were observed.

    Args:
        scores: of the main table. Its C2ST AUC is reused for those two, because a mask that does
            not depend on the record tells the forest nothing.
    """
    counts, codec = observed_counts(codec), codec.bare
    if not counts:
        return {"note": ONE_POSITION}
    if not samples.conditional:
        return {"note": BEGINNINGS}
    reference, train = (z[:, : codec.length] for z in (split.reference, train))
    observed = torch.stack([masks(len(reference), codec.length, c) for c in counts.values()])
    sets = [_record_sets(codec, split, samples, count) for count in counts.values()]
    stacked = torch.stack([torch.stack(list(rows.values())) for rows in sets])
    unseen = conditional.unseen_pairs(stacked, observed[:, None], train, codec.vocabulary)
    fractions: Json = {}
    for i, (name, count) in enumerate(counts.items()):
        rows: Json = {}
        for (row, x), share in zip(sets[i].items(), unseen[i].tolist(), strict=True):
            if row in COMPLETED:
                auc = conditional.completion_auc(reference, x, observed[i])
            else:
                auc = scores[row.removeprefix(UNCONDITIONAL)][AUC]
            tv = _pair_tv(codec, reference, x, observed[i])
            rows[row] = {AUC: auc, PAIR_TV: tv, UNSEEN: share}
        fractions[name] = {"observed positions": count, "scores": rows}
    looked_up = conditional.pairs_looked_up(codec.length, len(train))
    return {"position pairs looked up": looked_up, "fractions": fractions}


def _record_sets(
    codec: Codec, split: EvalSplit, samples: EvalSamples, count: int
) -> dict[str, State]:
    """The records that are scored with ``count`` observed positions, by row of the table."""
    sets = {REAL: split.real}
    for row, k in COMPLETED.items():
        sets[row] = samples.conditional[completion_name(count, k)]
    for row, k in COMPLETED.items():
        if k in samples.tokens:
            sets[UNCONDITIONAL + row] = samples.tokens[k]
    small = token_dtype(codec.vocabulary)
    return {row: x[:, : codec.length].to(small) for row, x in sets.items()}


def _pair_tv(codec: Codec, reference: State, x: State, observed: Tensor) -> float | None:
    """Adjacent symbols of a text at any position; else pairs of positions."""
    n = codec.vocabulary
    if codec.sequential:
        return conditional.adjacent_pair_tv(reference, x, observed, n, codec.pad)
    return conditional.position_pair_tv(reference, x, observed, n)
