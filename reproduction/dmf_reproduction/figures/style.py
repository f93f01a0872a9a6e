"""Colours and fonts of all figures."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BLUE, RED, ORANGE, GREY, GREEN = "#3066be", "#c8553d", "#e9a23b", "#8a8f98", "#4c9f70"
PALETTE = (BLUE, RED, ORANGE, GREEN, "#7b5ea7")

plt.rcParams.update(
    {
        "figure.dpi": 130,
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 9,
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
    }
)
