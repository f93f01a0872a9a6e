"""File formats and codecs: records as tokens and back."""
