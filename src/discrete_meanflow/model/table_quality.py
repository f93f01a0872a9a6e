"""Quality and privacy of the rows of a table, measured on the values of their cells."""

from collections.abc import Mapping

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.codec import Codec
from discrete_meanflow.io.table.table_codec import TableCodec
from discrete_meanflow.metric.column_prediction import best_predicted
from discrete_meanflow.metric.column_shapes import missing_rate
from discrete_meanflow.metric.privacy import PrivacyTest
from discrete_meanflow.metric.table_comparison import TableComparison
from discrete_meanflow.metric.table_values import Array
from discrete_meanflow.model.eval_samples import EvalSamples, EvalSplit
from discrete_meanflow.model.evaluation_grids import REAL
from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.model.table_pictures import column_picture, distance_picture
from discrete_meanflow.model.table_rows import is_numeric, row_values, table_codec
from discrete_meanflow.model.table_verdict import verdict
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.types import State

MOST_ROWS = 10_000  # that are compared
MOST_TRAINING_ROWS = 50_000  # among which the closest ones are sought


def check_target(codec: Codec, target: str | None) -> None:
    """Raise unless the records have this column, or None is asked for."""
    if target is None:
        return
    if (table := table_codec(codec)) is None:
        raise InputError(f"--target {target}: only tables have columns; leave it out")
    if target not in table.names:
        raise InputError(
            f"--target: no column '{target}'; the columns are {', '.join(table.names)}"
        )


def score_table(
    config: Config,
    train: State,
    split: EvalSplit,
    samples: EvalSamples,
    scores: Json,
    target: str | None,
) -> Json:
    """Quality, privacy and pictures of rows; empty if the records are no rows of a table.

    Args:
        scores: of the main table, whose copies are repeated.
        target: the column whose prediction measures utility; None chooses one.
    """
    if (codec := table_codec(config.codec)) is None:
        return {}
    quality = TableQuality(codec, row_values(codec, split.reference[:MOST_ROWS]))
    rows = {name: row_values(codec, x[:MOST_ROWS]) for name, x in samples.rows(split).items()}
    result = quality(rows, row_values(codec, train[:MOST_TRAINING_ROWS]), target)
    for name, privacy in result["privacy"].items():
        privacy["copies"] = scores[name]["copies"]
    return result | {"verdict": verdict(result)}


class TableQuality:
    """Compares rows with held-out rows.

    Args:
        codec: of the table.
        reference: values of the held-out rows.
    """

    def __init__(self, codec: TableCodec, reference: Array) -> None:
        self.codec, self.reference = codec, reference
        self.numeric = [is_numeric(column) for column in codec.columns]

    def __call__(self, rows: Mapping[str, Array], train: Array, target: str | None) -> Json:
        """All scores as JSON; see ``score_table``."""
        chosen = self._target(rows[REAL], target)
        compared = {
            name: TableComparison.of(self.reference, x, self.numeric, chosen)
            for name, x in rows.items()
        }
        test = PrivacyTest(train, self.reference, self.numeric)
        tested = {name: test(x) for name, x in rows.items()}
        return {
            "rows": min(map(len, rows.values())),
            "training rows": len(test.train),
            "target": self.codec.names[chosen],
            "scores": {name: found.scores for name, found in compared.items()},
            "columns": [self._column(i, rows, compared) for i in range(len(self.numeric))],
            "pairs": {
                "columns": list(map(list, compared[REAL].pairs)),
                "distances": {name: list(c.pairs.values()) for name, c in compared.items()},
            },
            "privacy": {name: scores for name, (scores, _) in tested.items()},
            "distances": distance_picture({name: d for name, (_, d) in tested.items()}),
        }

    def _target(self, real: Array, name: str | None) -> int:
        """The column of this name; else that of the class; else the one best predicted."""
        if (name := name or self.codec.label) is not None:
            return self.codec.names.index(name)
        return best_predicted(real, self.numeric) if len(self.numeric) > 1 else 0

    def _column(
        self, i: int, rows: Mapping[str, Array], compared: Mapping[str, TableComparison]
    ) -> Json:
        """The distances and missing cells of a column, and its picture."""
        column, own = self.codec.columns[i], {name: x[:, i] for name, x in rows.items()}
        return {
            "name": column.name,
            "kind": column.kind,
            "distance": {name: comparison.shapes[i] for name, comparison in compared.items()},
            "missing": {name: missing_rate(x) for name, x in own.items()},
            "picture": column_picture(column, own),
        }
