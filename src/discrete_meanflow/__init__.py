"""Discrete MeanFlow: one-step generation of discrete data by learned transition kernels."""

__version__ = "0.1.0"
