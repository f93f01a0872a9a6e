"""Train a peer of ``bench/tables.py`` for some minutes. Runs in the peer's own Python.

    python bench/tables_peer.py CTGAN train.csv rows.csv N MINUTES

One epoch is timed; as many follow from the start as fit into the rest of the time.
"""

import sys
import time
from typing import Any

import ctgan
import pandas


def main() -> None:
    name, train, out, n, minutes = sys.argv[1:]
    started, rows = time.monotonic(), pandas.read_csv(train)
    # The peers take neither missing numbers nor dates.
    numbers = rows.select_dtypes("number").columns
    rows[numbers] = rows[numbers].fillna(rows[numbers].median())
    words = [column for column in rows.columns if column not in numbers]
    rows[words] = rows[words].astype(str)
    few = [column for column in numbers if rows[column].nunique() <= 64]
    discrete = [*words, *few]

    def fitted(epochs: int) -> Any:
        model = getattr(ctgan, name)(epochs=epochs)
        model.fit(rows, discrete)
        return model

    timed = time.monotonic()
    fitted(1)
    one = time.monotonic() - timed
    timed = time.monotonic()
    fitted(2)
    epoch = max(0.1, time.monotonic() - timed - one)
    left = 60 * float(minutes) - (time.monotonic() - started) - (one - epoch)
    model = fitted(max(1, int(left / epoch)))
    model.sample(int(n)).to_csv(out, index=False)


if __name__ == "__main__":
    main()
