"""The experiments: one module for each table or figure of the paper, and for each of our own."""
