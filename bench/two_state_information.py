"""How well single samples determine the kernel of the two-state chain, for any model.

    python bench/two_state_information.py

In this chain ``q`` is the constant 1/2. Suppose that it is known to be constant, and estimate its
value by least squares of ``u_t(y, x_t)`` on ``d alpha/dt`` over the paper's 15,000 x 256 paths. The
standard error, in closed form up to an average over the time pairs, bounds the accuracy that the
single-sample kernel residual can reach without prior knowledge of the value.
"""

import argparse
from pathlib import Path

import torch

from discrete_meanflow.ctmc import chains
from discrete_meanflow.schedule import Exponential
from discrete_meanflow.times import UniformGap
from measure import RESULTS, record

PATHS = 15_000 * 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    u = chains.two_state()
    r, t, _ = UniformGap(0.01).sample((2_000_000,), torch.Generator().manual_seed(0))
    schedule = Exponential.of(u)
    slope = torch.func.jvp(lambda t: schedule(r, t), (t,), (torch.ones_like(t),))[1]
    moved = schedule(r, t) / 2  # P(x_t != x_r)
    variance = (2 * u.max_rate) ** 2 * moved * (1 - moved)  # variance of u_t(y, x_t) = +-max|u|
    paths = PATHS / 2  # for each start state
    plain = ((slope**2 * variance).mean() / paths).sqrt() / (slope**2).mean()
    weighted = 1 / ((slope**2 / variance).mean() * paths).sqrt()
    numbers = {
        "paths": PATHS,
        "standard error of q, least squares": plain.item(),
        "standard error of q, ideal weights": weighted.item(),
    }
    record(
        "two-state-information",
        "cpu",
        "python bench/two_state_information.py",
        numbers,
        options.out,
    )


if __name__ == "__main__":
    main()
