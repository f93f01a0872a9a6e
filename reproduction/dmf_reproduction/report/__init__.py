"""Tables and the generated docs, made from the JSON of runs. Imports no torch."""
