"""Run experiments: train cells side by side, resume interrupted runs, record results as JSON."""
