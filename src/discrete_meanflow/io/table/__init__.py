"""Tables: columns of levels, numbers, dates and times."""
