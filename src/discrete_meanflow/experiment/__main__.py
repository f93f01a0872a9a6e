"""``python -m discrete_meanflow.experiment NAME...``: reproduce without the CLI and plot packages.

For machines that have PyTorch and little else. Figures are drawn later, from the JSON, with
``dmf draw DIR``.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from discrete_meanflow.device import choose_device
from discrete_meanflow.experiment import SEEDS, catalog
from discrete_meanflow.experiment.base import Scale
from discrete_meanflow.experiment.order import Progress, RunSpec, run_folder
from discrete_meanflow.experiment.run import reproduce
from discrete_meanflow.guard import run_guarded


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m discrete_meanflow.experiment")
    parser.add_argument("names", nargs="+", help=", ".join([*catalog.EXPERIMENTS, catalog.ALL]))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    parser.add_argument("--scale", choices=[s.value for s in Scale], default="paper")
    parser.add_argument("--only", default="", help="train the cells whose name holds this text")
    parser.add_argument("--jobs", type=int, help="cells trained side by side (default: 4 on a GPU)")
    parser.add_argument("--out", type=Path, help="run folder (default: runs/NAME)")
    parser.add_argument("--data", type=Path, help="folder of the files that are read, if any are")
    given = parser.parse_args()
    return run_guarded(lambda: _run(given))


def _run(given: argparse.Namespace) -> None:
    names = catalog.holding(catalog.expand(given.names), given.only, given.scale, given.data)
    for name in names:
        folder = run_folder(given.out, name, len(names) > 1)
        device = choose_device(given.device)
        results = reproduce(
            RunSpec(
                name,
                tuple(given.seeds),
                device,
                Scale(given.scale),
                folder,
                given.jobs,
                given.only,
                given.data,
            ),
            _teller(),
        )
        if results is None:
            print(f"{name}: cells are left; run again without --only to finish", flush=True)
            continue
        for claim in results["claims"]:
            verdict = "holds" if claim["holds"] else "DOES NOT HOLD"
            print(f"{name}, {claim['id']}: {claim['paper']} / {claim['ours']}: {verdict}")
        print(f"{name}: {results['wall_seconds']} s", flush=True)


def _teller() -> Callable[[Progress], None]:
    """Says a line of each cell at every tenth of its way."""
    told: dict[str, int] = {}

    def say(news: Progress) -> None:
        tenth = 10 * news.iteration // news.iterations
        if tenth == told.get(news.cell, 0):
            return
        told[news.cell] = tenth
        numbers = "".join(f", {name} {value:.2e}" for name, value in news.metrics.items())
        print(
            f"{news.cell}: {tenth}0 %, loss {news.loss:.3g}{numbers}, {news.seconds:.1f} s",
            flush=True,
        )

    return say


if __name__ == "__main__":
    sys.exit(main())
