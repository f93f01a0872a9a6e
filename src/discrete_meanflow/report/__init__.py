"""From the JSON of a run to tables, figures and one HTML page. Imports no torch."""
