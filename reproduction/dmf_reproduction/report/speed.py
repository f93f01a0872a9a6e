"""Tables of speed and memory, from the records of `bench/`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dmf_reproduction.report.table import grid_markdown

Json = dict[str, Any]
Rows = list[tuple[str, str]]  # (benchmark, result)


def speed_section(bench: Path) -> str:
    """A table for each benchmark, with a column for each device."""
    parts = []
    for pattern, (title, rows) in BENCHES.items():
        paths = sorted(bench.glob(f"{pattern}.json"), reverse=True)  # cuda, then cpu
        runs = [json.loads(path.read_text()) for path in paths]
        results = [dict(rows(run)) for run in runs]
        names = dict.fromkeys(name for result in results for name in result)
        table = [
            ["", *(run["device"] for run in runs)],
            *([name, *(result.get(name, "-") for result in results)] for name in names),
        ]
        commands = ", ".join(f"`{run['command']}`" for run in runs)
        parts += [f"### {title}", "", commands, "", grid_markdown(table), ""]
    return "\n".join(parts)


def _training_step(run: Json) -> Rows:
    return [("MLP", f"{run['mlp: ratio']:.1f}x"), ("gated MLP", f"{run['gated: ratio']:.1f}x")]


def _sequences(run: Json) -> Rows:
    rows = [
        (f"training step, {name}: speed-up over an eager loop", f"{run[key]:.1f}x")
        for name, key in (("kernel residual", "KR: ratio"), ("kernel-CE", "KCE: ratio"))
    ]
    if "KL form over single sample" in run:
        ratio = run["KL form over single sample"]
        rows.append(("training step, KL form: time relative to single sample", f"{ratio:.2f}x"))
    milliseconds = run["1 step ms"]
    rows.append(
        (
            f"sampling {run['sequences sampled']:,} sequences in 1 step",
            f"{milliseconds:,.0f} ms" if milliseconds >= 100 else f"{milliseconds:.3g} ms",
        )
    )
    rows += [
        (f"sampling in {k} steps: time relative to 1 step", f"{run[f'{k} steps over 1']:.1f}x")
        for k in (8, 64)
    ]
    return rows


def _throughput(run: Json) -> Rows:
    """Training, one-step sampling and idle time, at each model size."""
    suffix = ", AdamW: fraction of peak"
    sizes = [key.removesuffix(suffix) for key in run if key.endswith(suffix)]
    rows: Rows = []
    for size in sorted(sizes, key=lambda size: float(size[:-1])):  # millions of parameters
        for optimiser in ("AdamW", "Muon", "Muon, observed positions"):
            name = f"{size}, {optimiser}"
            tokens = run[f"{name}: training tokens per second"] / 1e6
            peak = run[f"{name}: fraction of peak"]
            rows.append((f"{size}: training, {optimiser}", f"{tokens:.2f}M tokens/s ({peak:.1%})"))
        samples = run[f"{size}: one-step samples per second"]
        peak = run[f"{size}: sampling, fraction of peak"]
        rows.append((f"{size}: one-step sampling", f"{samples:,.0f} samples/s ({peak:.1%})"))
        idle = f"{size}: GPU idle fraction of a block"
        rows += [
            (f"{size}: GPU idle, by the clock", f"{run[f'{idle}, by the clock']:.1%}"),
            (f"{size}: GPU idle, in a profile", f"{run[idle]:.1%}"),
            (
                f"{size}: training time outside the steps",
                f"{run[f'{size}: fraction of a block outside its steps']:.1%}",
            ),
        ]
    return rows


def _attention(run: Json) -> Rows:
    """Sequences shorter than half a tile: several in one tile against one in each."""
    suffix = ": efficient, in tiles, over written out"
    rows = []
    for shape in (key.removesuffix(suffix) for key in run if key.endswith(suffix)):
        positions = int(shape.split(", ")[2])
        gain = run[f"{shape}: efficient, over written out"] / run[f"{shape}{suffix}"]
        if 2 * positions <= run["tile"]:
            rows.append((f"{positions} positions", f"{gain:.2f}x"))
    return rows


def _estimators(run: Json) -> Rows:
    suffix = ": over the single sample"
    ratios = {key.removesuffix(suffix): run[key] for key in run if key.endswith(suffix)}
    return [(f"{run['law']}, {name}", f"{v:.1f}x") for name, v in ratios.items() if name != "KR"]


def _uniformization(run: Json) -> Rows:
    dense, sparse = run["dense MiB (anonymous)"], run["uniformization MiB (anonymous)"]
    return [
        (f"{run['states']:,} states: speed-up", f"{run['ratio']:,.0f}x"),
        (f"{run['states']:,} states: memory", f"{sparse:.2g} against {dense:,.0f} MiB"),
    ]


def _processes(run: Json) -> Rows:
    return [(f"batch {run['batch']}: speed-up", f"{run['two processes over one']:.2f}x")]


def _memory(run: Json) -> Rows:
    memory = f"{run['largest anonymous memory, MiB']:,.0f} MiB"
    return [(f"file of {run['text, MB']:,.0f} MB", memory)]


def _large_table(run: Json) -> Rows:
    memory = ": largest anonymous memory, MiB"
    forms = [key.removesuffix(memory) for key in run if key.endswith(memory)]
    rows = [(f"{form}: memory of training", f"{run[form + memory]:,.0f} MiB") for form in forms]
    seconds = ": reading and preparation, s"
    rows += [(f"{form}: time to the first step", f"{run[form + seconds]:.0f} s") for form in forms]
    rate = ": sampled rows per second"
    return rows + [
        (f"{form}: sampled rows per second", f"{run[form + rate]:,.0f}")
        for form in forms
        if form + rate in run
    ]


def _explorer(run: Json) -> Rows:
    suffix = ": median ms"
    page, plotly = (run[f"page: bytes {part} Plotly"] / 1e6 for part in ("without", "of"))
    return [
        (
            "start-up after the import of torch",
            f"{run['start-up after import of torch: seconds']:.1f} s",
        ),
        ("page", f"{page:.2f} MB and {plotly:.1f} MB of Plotly"),
        *(
            (f"{key.removesuffix(suffix)}, from slider to picture", f"{value:.0f} ms")
            for key, value in run.items()
            if key.endswith(suffix)
        ),
    ]


# File pattern -> title and rows.
BENCHES: dict[str, tuple[str, Callable[[Json], Rows]]] = {
    "training-step-*": ("Training step per seed: speed-up over an eager loop", _training_step),
    "sequences-*": ("Sequences (16, 32)", _sequences),
    "throughput-cuda": ("Throughput by number of parameters (fraction of peak)", _throughput),
    "attention-cuda": ("Attention: speed-up by packing sequences into tiles", _attention),
    "estimators-*": ("Training step: time relative to the single sample", _estimators),
    "uniformization": ("Sparse chain: uniformization against dense expm", _uniformization),
    "distributed-cpu": ("Two training processes against one", _processes),
    "large-text": ("Memory of training on one text", _memory),
    "explorer": ("The explorer's page, median", _explorer),
    "large-lines": ("Memory of training on lines", _memory),
    "large-table": ("A table of 20 columns", _large_table),
}
