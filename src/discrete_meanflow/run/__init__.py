"""The run engine: stages of training, progress, the environment record and JSON files."""
