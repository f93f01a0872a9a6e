"""Figures of the experiments on sequences."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from dmf_reproduction.figures.panels import panels, values
from dmf_reproduction.figures.style import BLUE, GREEN, GREY, ORANGE, RED
from dmf_reproduction.settings import LAMBDAS, STEPS

Json = dict[str, Any]
COLOURS = {"KR": BLUE, "PR": GREEN, "KCE": ORANGE}


# -- objectives ---------------------------------------------------------------------------


def objective_comparison(results: Json) -> dict[str, Figure]:
    return {"objective-comparison": bars(results), "training": exact_tv_curves(results)}


def bars(results: Json) -> Figure:
    """(a) token accuracy, (b) TV with its floor, (c) cross-entropy, for each configuration."""
    names = list(results["facts"])
    metrics = (
        ("accuracy", "(a) token accuracy", "accuracy"),
        ("tv", "(b) one-step TV, 5,000 samples", "floor"),
        ("cross_entropy", "(c) cross-entropy to the true marginals", "cross_entropy"),
    )
    figure, axes = plt.subplots(3, 1, figsize=(1.6 + 1.1 * len(names), 7.5), sharex=True)
    places = np.arange(len(names))
    for axis, (key, title, truth) in zip(axes, metrics, strict=True):
        for shift, (objective, colour) in enumerate(COLOURS.items()):
            per_seed = [values(results, f"{name}, {objective}", key) for name in names]
            per_seed = [v[:, 0] if v.ndim == 2 else v for v in per_seed]
            axis.bar(
                places + 0.26 * (shift - 1),
                [v.mean() for v in per_seed],
                0.26,
                yerr=[v.std() for v in per_seed],
                color=colour,
                label=objective,
                error_kw={"lw": 0.8},
            )
        marks = [results["facts"][name][truth] for name in names]
        axis.hlines(
            marks, places - 0.4, places + 0.4, color="k", lw=1.2, label="draws from the data"
        )
        axis.set_title(title)
    axes[1].set_yscale("log")
    axes[-1].set_xticks(places, [name.replace(" (", "\n(") for name in names])
    axes[0].legend(ncols=4)
    return figure


def exact_tv_curves(results: Json) -> Figure:
    """Exact one-step TV during training, one panel per configuration."""
    names = list(results["facts"])
    figure, axes = panels(len(names), rows=len(names) // 3 or 1)
    for axis, name in zip(axes.flat, names, strict=False):
        for objective, colour in COLOURS.items():
            curve = results["cells"][f"{name}, {objective}"]["curve"]
            axis.semilogy(curve["at"], np.mean(curve["exact_tv"], 1), color=colour, label=objective)
        axis.set_title(name)
    axes.flat[0].legend()
    figure.supxlabel("iteration")
    figure.supylabel("exact one-step TV")
    return figure


def target_variance(results: Json) -> dict[str, Figure]:
    """Left: variance of both targets. Right: norm of the KR target and two scalings."""
    rows, vocabulary = results["facts"]["rows"], results["facts"]["vocabulary"]
    t = np.array([row["t"] for row in rows])
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.2))
    left.semilogy(t, [row["KR"] for row in rows], "o-", color=BLUE, label="KR, masked positions")
    left.semilogy(
        t, [row["KR, all positions"] for row in rows], "^:", color=BLUE, label="KR, all positions"
    )
    left.semilogy(t, [row["PR"] for row in rows], "s-", color=GREEN, label="PR")
    left.set(title="per-element target variance", xlabel="t")
    right.semilogy(t, [row["norm"] for row in rows], "o", color=BLUE, label="measured")
    right.semilogy(t, np.sqrt(2) / (1 - t), color=GREY, label="√2 / (1 − t)")
    right.semilogy(t, np.sqrt(vocabulary) / (1 - t), "--", color=RED, label="√|V| / (1 − t), paper")
    right.set(title="L2 norm of the KR target", xlabel="t")
    left.legend()
    right.legend()
    return {"target-variance": figure}


# -- several steps ------------------------------------------------------------------------


def multi_step(results: Json) -> dict[str, Figure]:
    names = list(results["facts"])
    figure, axes = panels(len(names), rows=2, columns=len(names), height=2.4)
    for row, objective in zip(axes, ("KR", "PR"), strict=True):
        for axis, name in zip(row, names, strict=True):
            tv = values(results, f"{name}, {objective}", "tv")
            axis.bar(range(4), tv.mean(0), yerr=tv.std(0), color=COLOURS[objective], width=0.7)
            axis.axhline(results["facts"][name]["floor"], color=GREY, ls="--", lw=1)
            axis.set_xticks(range(4), STEPS)
            axis.set_title(f"{objective}, {name}")
    figure.supxlabel("steps (dashed: sampling floor)")
    figure.supylabel("TV, 5,000 samples")
    return {"multi-step": figure, "step-comparison": steps_of(results, ("KR", "PR"))}


def steps_of(results: Json, objectives: tuple[str, ...]) -> Figure:
    """TV from many samples against the number of steps."""
    names = list(results["facts"])
    figure, axes = panels(len(names), columns=len(names), height=2.6)
    for axis, name in zip(axes.flat, names, strict=True):
        for objective in objectives:
            tv = values(results, f"{name}, {objective}", "tv_many")
            colour = COLOURS["PR" if objective == "KCE" else objective]
            axis.plot(STEPS, tv.mean(0), "o-", color=colour, label=objective)
        fact = results["facts"][name]
        if "exact" in fact:
            axis.plot(STEPS, fact["exact"]["tv_many"], "x:", color=RED, label="exact posterior")
        axis.axhline(fact["floor_many"], color=GREY, ls="--", lw=1)
        axis.set(title=name, xscale="log", yscale="log")
        axis.set_xticks(STEPS, STEPS)
        axis.minorticks_off()
    axes.flat[0].legend()
    figure.supxlabel("steps (dashed: sampling floor)")
    figure.supylabel("TV, 100,000 samples")
    return figure


def hybrid_sweep(results: Json) -> dict[str, Figure]:
    """Top: TV against lambda. Bottom: token accuracy."""
    names = list(results["facts"])
    figure, axes = panels(len(names), rows=2, columns=len(names), height=2.4)
    for column, name in enumerate(names):
        fact = results["facts"][name]
        for row, (key, truth) in enumerate((("tv", "floor"), ("accuracy", "accuracy"))):
            axis = axes[row][column]
            means = [values(results, f"{name}, {o}", key).mean(0) for o in LAMBDAS.values()]
            axis.plot([np.ravel(v)[0] for v in means], "o-", color=BLUE, label="samples")
            axis.axhline(fact[truth], color=GREY, ls="--", lw=1)
            axis.set_xticks(range(len(LAMBDAS)), [k.replace("inf", "∞") for k in LAMBDAS])
        exact = [values(results, f"{name}, {o}", "exact_tv").mean() for o in LAMBDAS.values()]
        axes[0][column].plot(exact, "s:", color=ORANGE, label="exact")
        axes[0][column].set(title=name, yscale="log")
    axes[0][0].set_ylabel("TV")
    axes[1][0].set_ylabel("token accuracy")
    axes[0][0].legend()
    figure.supxlabel("λ (dashed: draws from the data)")
    return {"hybrid-sweep": figure, "hybrid-steps": steps_of(results, ("KR", "KCE"))}
