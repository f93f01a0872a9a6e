"""The explorer: page weight, start-up, and the time from a slider to the picture.

    python bench/explorer.py

Needs the browser chromium. Start-up is the time until ``dmf explore`` answers, minus the time of
``import torch``. A picture is drawn when the browser calls the next animation frame after the page
has shown the numbers of the new slider value. The server and the browser share the cores.
"""

import itertools
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.request import urlopen

from playwright.sync_api import Page, sync_playwright

from discrete_meanflow.ctmc import paper_chains
from measure import RESULTS, record

EXPLORE = [sys.executable, "-m", "discrete_meanflow", "explore", "--no-browser"]
STARTS, MOVES = 3, 40
MOVE = """
async ([view, name, values]) => {
  const [box, slider] = [view, name].map((id) => document.getElementById(id));
  const times = [];
  for (const value of values) {
    const start = performance.now();
    slider.value = value;
    slider.dispatchEvent(new Event("input"));
    while (box.ariaBusy !== "false") await new Promise((next) => setTimeout(next));
    await new Promise(requestAnimationFrame);
    times.push(performance.now() - start);
  }
  return times;
}
"""
TRAINED = """
(states) => {
  const { ariaBusy, dataset } = document.getElementById("chain");
  const isShown = ariaBusy === "false" && JSON.parse(dataset.question).rates.length === states;
  return isShown && dataset.learned === "true";
}
"""


@contextmanager
def explorer(*words: str) -> Iterator[str]:
    """A running server; yields its address once it answers."""
    process = subprocess.Popen([*EXPLORE, *words], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"http://[\w.:]+", process.stderr.readline())
        assert found is not None
        urlopen(found[0]).read()
        yield found[0]
    finally:
        process.terminate()
        process.wait()


def start_seconds() -> float:
    """Seconds from the command to the first answer, without the import of torch."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    importing = time.perf_counter() - started
    started = time.perf_counter()
    with explorer():
        return time.perf_counter() - started - importing


def weights(page: Page, address: str) -> dict[str, int]:
    """Bytes of the page and of all that it loads."""
    sizes: dict[str, int] = {}
    page.on("response", lambda answer: sizes.update({answer.url: len(answer.body())}))
    page.goto(address)
    page.locator("#runs[aria-busy=false]").wait_for()
    plotly = sum(size for url, size in sizes.items() if "plotly" in url)
    return {
        "page: bytes without Plotly": sum(sizes.values()) - plotly,
        "page: bytes of Plotly": plotly,
        "page: files": len(sizes),
    }


def move(page: Page, view: str, slider: str, values: Sequence[float]) -> dict[str, float]:
    """Milliseconds from moving a slider to the picture; the first moves warm up."""
    times = page.evaluate(MOVE, [view, slider, list(values)])[5:]
    return {
        "median ms": statistics.median(times),
        "95 % below, ms": statistics.quantiles(times, n=20)[-1],
    }


def chain_times(page: Page, name: str) -> dict[str, float]:
    page.select_option("#preset", name)
    page.wait_for_function(TRAINED, arg=paper_chains()[name].states, timeout=120_000)
    numbers: dict[str, float] = {}
    for slider, start in (("t", 0.5), ("r", 0.05)):
        values = [round(start + i / 100, 2) for i in range(MOVES)]
        measured = move(page, "chain", slider, values)
        numbers |= {f"{name}, slider {slider}: {key}": ms for key, ms in measured.items()}
    page.locator("#r").fill("0")
    return numbers


def run_times(page: Page) -> dict[str, float]:
    """The steps slider between neighbours of each number of steps; 24 names."""
    numbers: dict[str, float] = {}
    for steps in (1, 4, 16, 63):
        values = list(itertools.islice(itertools.cycle((steps, steps + 1)), MOVES // 2))
        measured = move(page, "runs", "steps", values)
        numbers |= {f"names, {steps} steps: {key}": ms for key, ms in measured.items()}
    return numbers


def main() -> None:
    numbers: dict[str, float] = {
        "other work: load average at the start": os.getloadavg()[0],
        "start-up after import of torch: seconds": statistics.median(
            start_seconds() for _ in range(STARTS)
        ),
    }
    with sync_playwright() as playwright, explorer("--chain", "ring") as address:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        numbers |= weights(page, f"{address}/#runs")
        numbers |= run_times(page)
        page.goto(f"{address}/#chain")
        for name in paper_chains():
            numbers |= chain_times(page, name)
        browser.close()
    record("explorer", "cpu", "python bench/explorer.py", numbers, RESULTS)


if __name__ == "__main__":
    main()
