"""From records to a generator that needs one forward pass."""
