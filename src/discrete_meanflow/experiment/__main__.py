"""``python -m discrete_meanflow.experiment NAME...``: reproduce without the CLI and plot packages.

For machines that have PyTorch and little else. Figures are drawn later, from the JSON, with
``dmf draw DIR``.
"""

import argparse
import sys
from pathlib import Path

from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.experiment import catalog
from discrete_meanflow.experiment.base import Scale
from discrete_meanflow.experiment.run import Order, Progress, choose_device, reproduce


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m discrete_meanflow.experiment")
    parser.add_argument("names", nargs="+", help=", ".join([*catalog.EXPERIMENTS, catalog.ALL]))
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 123, 2024])
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    parser.add_argument("--scale", choices=[s.value for s in Scale], default="paper")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="default: runs/NAME each")
    given = parser.parse_args()
    try:
        for name in catalog.expand(given.names):
            order = Order(
                name,
                tuple(given.seeds),
                choose_device(given.device),
                Scale(given.scale),
                given.out / name,
            )
            results = reproduce(order, _say)
            for claim in results["claims"]:
                verdict = "holds" if claim["holds"] else "DOES NOT HOLD"
                print(f"{name}, {claim['id']}: {claim['paper']} / {claim['ours']}: {verdict}")
            print(f"{name}: {results['wall_seconds']} s", flush=True)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except Interrupted:
        print("stopped and saved; run the same command again to go on", file=sys.stderr)
        return 130
    return 0


def _say(news: Progress) -> None:
    if news.iteration == news.iterations:
        numbers = ", ".join(f"{name} {value:.2e}" for name, value in news.metrics.items())
        print(f"{news.cell}: loss {news.loss:.3g}, {numbers}, {news.seconds:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
