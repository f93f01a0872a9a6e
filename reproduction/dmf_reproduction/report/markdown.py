"""Markdown made from committed results, so that no number in the docs is typed by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dmf_reproduction.figures.draw import draw
from dmf_reproduction.report.joint_table import joint_table
from dmf_reproduction.report.table import (
    GRIDS,
    claims_markdown,
    escaped,
    grid,
    grid_markdown,
)

Json = dict[str, Any]
# What is told of runs of one's own data, where it was measured.
OWN_DATA = (
    "pair TV", "two sites", "well-formed", "valid", "unique", "copies", "AUC", "known words",
    "bits",
)  # fmt: skip


def read_runs(results: Path) -> dict[str, Json]:
    return {
        path.parent.name: json.loads(path.read_text())
        for path in sorted(results.glob("*/results.json"))
    }


def claims_table(runs: dict[str, Json]) -> str:
    """A line for each experiment: how many of its claims hold. docs/results.md has each of them."""
    lines = ["| experiment | what | where | claims that hold |", "|---|---|---|---|"]
    for name, run in sorted(runs.items(), key=lambda item: not _of_the_paper(item[1])):
        held, claims = sum(claim["holds"] for claim in run["claims"]), len(run["claims"])
        lines.append(
            f"| [{name}](docs/results.md#{name}) | {escaped(run['title'])} | {run['where']} "
            f"| {held} of {claims} |"
        )
    paper = [run for run in runs.values() if _of_the_paper(run)]
    wall = sum(run["wall_seconds"] for run in paper)
    made = {
        f"{run['date']} on {run['device']}, torch {run['versions']['torch']}, seeds "
        f"{' '.join(map(str, run['seeds']))}"
        for run in paper
    }
    lines += [
        "",
        f"`dmf reproduce paper`: {'; '.join(sorted(made))}; all experiments in {wall:.0f} s. "
        "docs/results.md has the command of each.",
    ]
    return "\n".join(lines)


def _of_the_paper(run: Json) -> bool:
    return run.get("of_the_paper", True)


def speed_table(bench: Path) -> str:
    """A row or more for each record of a bench."""
    rows_of: dict[str, Callable[[Json], list[str]]] = {
        "training-step-*": _training_step,
        "sequences-*": _sequences,
        "throughput-cuda": _share_of_the_peak,
        "attention-cuda": _gain_of_tiles,
        "estimators-*": _cost_of_each,
        "uniformization": _uniformization,
        "processes-cpu": _two_processes,
        "large-text": lambda run: _memory("a text", run),
        "large-lines": lambda run: _memory("lines", run),
    }
    lines = ["| what | on | ratio | command |", "|---|---|---|---|"]
    for name, rows in rows_of.items():
        for path in sorted(bench.glob(f"{name}.json"), reverse=True):  # cuda, then cpu
            lines += rows(json.loads(path.read_text()))
    return "\n".join(lines)


def _training_step(run: Json) -> list[str]:
    ratios = f"{run['mlp: ratio']:.1f}x (MLP), {run['gated: ratio']:.1f}x (another network)"
    return [
        f"| training step, per seed, against a plain eager loop | {run['device']} | {ratios} "
        f"| `{run['command']}` |"
    ]


def _sequences(run: Json) -> list[str]:
    return [
        "| sequences (16, 32): training step, per seed, against a plain eager loop "
        f"| {run['device']} | {run['KR: ratio']:.1f}x (kernel residual), "
        f"{run['KCE: ratio']:.1f}x (kernel-CE) | `{run['command']}` |",
        *_cost_of_the_kl_form(run),
        f"| sequences (16, 32): {run['sequences sampled']:,} sequences in 8 and in 64 steps, "
        f"against one | {run['device']} | {run['8 steps over 1']:.1f}x, "
        f"{run['64 steps over 1']:.1f}x ({run['1 step ms']:.3g} ms in one step) "
        f"| `{run['command']}` |",
    ]


def _uniformization(run: Json) -> list[str]:
    return [
        f"| kernel of a {run['states']:,}-state sparse chain acting on a law, uniformization "
        f"against dense `expm` | {run['device']} | {run['ratio']:,.0f}x in time, "
        f"{run['dense MiB (anonymous)']:,.0f} against {run['uniformization MiB (anonymous)']:.2g} "
        f"MiB | `{run['command']}` |"
    ]


def _two_processes(run: Json) -> list[str]:
    return [
        f"| training steps a second, two processes against one, a batch of {run['batch']} "
        f"| {run['device']} | {run['two processes over one']:.2f}x | `{run['command']}` |"
    ]


def _memory(what: str, run: Json) -> list[str]:
    return [
        f"| memory of training on {what} of {run['text, MB']:,.0f} MB (anonymous) "
        f"| {run['device']} | {run['largest anonymous memory, MiB']:,.0f} MiB "
        f"| `{run['command']}` |"
    ]


def _share_of_the_peak(run: Json) -> list[str]:
    """Training, and generation in one step, at each size that was measured."""
    last = ", AdamW: share of the peak"
    sizes = [key.removesuffix(last) for key in run if key.endswith(last)]
    sizes.sort(key=lambda size: float(size[:-1]))  # millions
    steps, samples, idle = [], [], []
    for size in sizes:
        beyond = run[f"{size}: share of a block that is beyond its steps"]
        still = f"{size}: share of a block in which the GPU is idle"
        waits = {
            f"{still}, by the clock": "idle by the clock",
            still: "in a profile",
            f"{still}, in gaps of over 10 us": "in its gaps of over 10 us",
        }
        idle.append(f"{size}: {beyond:.1%}{_in_brackets(run, waits)}")
        adam, muon, clamped = (
            f"{size}, {by}: share of the peak" for by in ("AdamW", "Muon", "Muon, clamps")
        )
        rate = run[f"{size}, AdamW: training tokens per second"]
        others = _in_brackets(run, {muon: "Muon", clamped: "Muon with clamps"})
        steps.append(f"{size}: {run[adam]:.1%}, {rate / 1e6:.2f}M tokens/s{others}")
        share, rate = (
            run[f"{size}: {what}"]
            for what in ("sampling, share of the peak", "one-step samples per second")
        )
        samples.append(f"{size}: {share:.1%}, {rate:,.0f}/s")
    where = f"{run['D']} positions of {run['V']} symbols"
    return [
        f"| model FLOPs of a training step against {run['peak TFLOP/s']:.0f} TFLOP/s, {where}, "
        f"batch {run['batch']:,}, by parameters (wanted at 100M: 40 %), with AdamW and no clamps "
        f"| {run['device']} | {'; '.join(steps)} | `{run['command']}` |",
        f"| the same of one-step samples, {4 * run['batch']:,} at once | {run['device']} "
        f"| {'; '.join(samples)} | `{run['command']}` |",
        "| share of a block of training that is beyond its steps; in brackets, in which the GPU is "
        "idle (wanted: below 3 %), which is between the two "
        f"| {run['device']} | {'; '.join(idle)} | `{run['command']}` |",
    ]


def _in_brackets(run: Json, names: dict[str, str]) -> str:
    """Shares, each with its name."""
    return f" ({', '.join(f'{run[key]:.1%} {name}' for key, name in names.items())})"


def _gain_of_tiles(run: Json) -> list[str]:
    """Of attention over short sequences, at each length of which several fit into a tile."""
    gains = []
    for key in run:
        shape, _, trajectory = key.partition(": ")
        if trajectory == "efficient, in tiles, over written out":
            positions = int(shape.split(", ")[2])
            gain = run[f"{shape}: efficient, over written out"] / run[key]
            gains += [f"{gain:.2f}x ({positions} positions)"] * (
                2 * positions <= run.get("tile", 64)
            )
    return [
        "| attention forward and back, short sequences side by side in tiles against each in one "
        f"of its own | {run['device']} | {', '.join(gains)} | `{run['command']}` |"
    ]


def _cost_of_the_kl_form(run: Json) -> list[str]:
    if "KL form over single sample" not in run:
        return []
    of_ce = run["KCE: library ms per step and seed"] / run["KR: library ms per step and seed"]
    return [
        f"| sequences (16, 32): training step against that of the single sample | {run['device']} "
        f"| {run['KL form over single sample']:.2f}x (KL form), {of_ce:.2f}x (kernel-CE) "
        f"| `{run['command']}` |"
    ]


def _cost_of_each(run: Json) -> list[str]:
    """A step of every objective, over one of the single sample."""
    ending = ": over the single sample"
    ratios = {key.removesuffix(ending): run[key] for key in run if key.endswith(ending)}
    del ratios["KR"]
    each = ", ".join(f"{ratio:.1f}x ({name})" for name, ratio in ratios.items())
    return [
        f"| {run['law']}: training step, paths drawn beforehand, against the single sample "
        f"| {run['device']} | {each} | `{run['command']}` |"
    ]


def own_data_table(results: Path) -> str:
    """Runs of one's own data, in one step and in most: the score of samples, and in brackets that
    of held-out records."""
    lines = [
        "| command | on | steps | " + " | ".join(OWN_DATA) + " |",
        "|---" * (3 + len(OWN_DATA)) + "|",
    ]
    for path in sorted(results.glob("own-*/evaluation.json")):
        found, card = (
            json.loads((path.parent / name).read_text()) for name in (path.name, "data.json")
        )
        where = found["environment"]["gpu"] or found["environment"]["machine"]
        real = found["scores"].pop("held out")
        ends = list(found["scores"].items())
        for who, scores in (ends[0], ends[-1]):
            cells = [
                f"{scores[key]:.3f} ({real[key]:.3f})" if key in scores else "-" for key in OWN_DATA
            ]
            command = card["command"] + _asked(found, ends) * ("onestep" in card["command"])
            begins = f"`{command}` | {where}" if who == "1 step" else " | "
            lines.append(f"| {begins} | {who.split()[0]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _asked(found: Json, scores: list[tuple[str, Json]]) -> str:
    """The samples that a run was asked for, as options."""
    steps = " ".join(who.split()[0] for who, _ in scores)
    return f" --steps {steps}" + f" --reading {found['reading']}" * bool(found.get("reading"))


def results_page(runs: dict[str, Json]) -> str:
    """docs/results.md: every claim of every run, and its figures."""
    sections = ["# Results", "", "Every number on this page is read from `results/`.", ""]
    for name, run in runs.items():
        sections += [f"## {name}", "", claims_markdown(run), ""]
        pictures = sorted((Path("results") / name).glob("*.png"))
        sections += [f"![{p.stem}](../results/{name}/{p.name})\n" for p in pictures]
    return "\n".join(sections)


def readme_text(text: str, results: Path) -> str:
    """The README with its tables made anew from the records."""
    runs = read_runs(results)
    text = with_section(text, "claims", claims_table(runs))
    for name in GRIDS:
        if name in runs:
            text = with_section(text, name, grid_markdown(grid(runs[name])))
    text = with_section(text, "joint law", joint_table(runs))
    text = with_section(text, "own data", own_data_table(results))
    return with_section(text, "speed", speed_table(results / "bench"))


def with_section(text: str, name: str, section: str) -> str:
    """Replace what stands between the two marks of a section."""
    begin, end = f"<!-- {name}: made from results/ by `make docs` -->", f"<!-- end of {name} -->"
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the text has no place for '{name}': it needs {begin} and {end}")
    return f"{head}{begin}\n{section}\n{end}{tail}"


def main() -> None:
    runs = read_runs(Path("results"))
    for name, run in runs.items():
        draw(run, Path("results") / name)
    readme = Path("README.md")
    readme.write_text(readme_text(readme.read_text(), Path("results")))
    Path("docs/results.md").write_text(results_page(runs))


if __name__ == "__main__":
    main()
