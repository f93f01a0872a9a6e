"""Reproduction of Discrete MeanFlow (arXiv 2605.12805): experiments, claims, figures, reports."""

SEEDS = (42, 123, 2024)  # the paper's seeds
