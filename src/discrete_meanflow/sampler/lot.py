LARGEST = 10_000  # sequences carried at once
NUMBERS = 2**28  # that the largest tensor on the way may hold
HEADS = 16  # of attention, or so


def lot_size(length: int, states: int) -> int:
    """How many sequences to carry at once: attention holds ``heads D^2`` numbers for each."""
    return max(1, min(LARGEST, NUMBERS // (length * max(states, HEADS * length))))
