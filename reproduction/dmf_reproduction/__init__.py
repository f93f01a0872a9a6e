"""The paper's tables and figures, each as the parts it is made of and the claims it tests."""

SEEDS = (42, 123, 2024)  # the paper's
