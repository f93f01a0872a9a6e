"""Fit a one-step generator to a list of strings, sample it and infill a pattern."""

import argparse
from pathlib import Path

import discrete_meanflow as dmf

ENDINGS = ("a", "e", "ia", "ette", "ine", "o", "us")
STEMS = ("ann", "hann", "mar", "jul", "luc", "paul", "nin", "carl", "emil", "vict")

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("file", nargs="?", type=Path, help="one name per line (default: a toy list)")
parser.add_argument("--minutes", type=float, default=1.0)
parser.add_argument("--iterations", type=int, help="training steps, instead of minutes")
options = parser.parse_args()

if options.file is None:
    names = [stem + ending for stem in STEMS for ending in ENDINGS]
elif not options.file.is_file():
    parser.error(f"{options.file} does not exist")
else:
    names = options.file.read_text().split()
budget = {"iterations": options.iterations} if options.iterations else {"minutes": options.minutes}
gen = dmf.OneStepModel.fit(names, **budget)

print("training names:          ", ", ".join(names[:6]))
print("one step:                ", ", ".join(gen.sample(6, seed=0)))
print("sixteen steps:           ", ", ".join(gen.sample(6, steps=16, seed=0)))
print("beginning with 'mar':    ", ", ".join(gen.sample(6, infill="mar", seed=0)))
print("second letter is a 'u':  ", ", ".join(gen.sample(6, infill="?u", seed=0)))
