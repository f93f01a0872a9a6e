"""Figures, drawn from the JSON of a run alone. Imports no torch."""
