"""Train a peer of ``bench/tables.py`` for some minutes. Runs in the peer's own Python.

    python bench/tables_peer.py CTGAN train.csv rows.csv --rows 10000 --minutes 5

The minutes include the preparation. The rows are written to ``rows.csv``, and how they were made to
``rows.json``. The peers take no missing cells: a column of numbers that has some gets a second
column, which says where, and the cells are filled with the median. Generated numbers are rounded to
the decimals of the training rows. Both help the peers.
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path
from typing import TypeAlias

import numpy
import pandas

from peer_models import Gan, Peer

NUMBERS = 64  # distinct numbers above which a column is one of numbers
MEMORY = 0.75  # share of the machine's memory; more raises MemoryError
Frame: TypeAlias = pandas.DataFrame


def complete(rows: Frame) -> tuple[Frame, list[str]]:
    """Rows without missing cells, and their columns of levels."""
    numbers = list(rows.select_dtypes("number").columns)
    words = [name for name in rows.columns if name not in numbers]
    few = [name for name in numbers if rows[name].nunique() <= NUMBERS]
    holes = {_hole(name): rows[name].isna().astype(str) for name in numbers if rows[name].hasnans}
    full = rows.assign(**holes)
    full[numbers] = full[numbers].fillna(full[numbers].median())
    full[words] = full[words].astype(str)
    return full, [*words, *few, *holes]


def like(rows: Frame, made: Frame) -> Frame:
    """Generated rows with the missing cells and the decimals of ``rows``."""
    made = made.copy()
    for name in rows.select_dtypes("number").columns:
        made[name] = made[name].astype(float).round(_decimals(rows[name]))
        if _hole(name) in made:
            made.loc[made[_hole(name)] == "True", name] = numpy.nan
    return made[list(rows.columns)]


def _hole(name: str) -> str:
    return f"{name} is missing"


def _decimals(column: pandas.Series) -> int:
    numbers = column.dropna()
    exact = (d for d in range(8) if (numbers - numbers.round(d)).abs().max() < 1e-9)
    return next(exact, 8)


def peer(name: str, tabdiff: Path | None, seed: int) -> Peer:
    """The peer of a name: CTGAN, TVAE, TabDiff, or TabDiff-256 for batches of 256 rows."""
    if tabdiff is None:
        return Gan(name, seed)
    from peer_tabdiff import TabDiff

    _, _, batch = name.partition("-")
    return TabDiff(tabdiff, int(batch) if batch else None, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("train", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tabdiff", type=Path, help="checkout of TabDiff")
    options = parser.parse_args()
    limit = int(MEMORY * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    model = peer(options.name, options.tabdiff, options.seed)
    started, train = time.monotonic(), pandas.read_csv(options.train)
    steps = model.train(*complete(train), started + 60 * options.minutes)
    trained = time.monotonic()
    made = model.sample(options.rows)
    details = {
        "version": model.version,
        "steps": steps,
        "training": trained - started,
        "sampling": time.monotonic() - trained,
    }
    like(train, made).to_csv(options.out, index=False)
    options.out.with_suffix(".json").write_text(json.dumps(details))


if __name__ == "__main__":
    main()
