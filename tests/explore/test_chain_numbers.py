"""The numbers of a chain are those of the Python API."""

import threading
import time

import pytest
import torch

from discrete_meanflow import (
    ConstantGenerator,
    KernelSampler,
    chain_problem,
    identity_residual,
    mean_rate,
    train_kernel,
    transition,
)
from discrete_meanflow.ctmc import paper_chains, ring
from discrete_meanflow.errors import InputError
from discrete_meanflow.explore.learner import MOST_WAITING, RECIPE, SEED, Learner
from discrete_meanflow.explore.questions import ChainRates
from problems import seeded

QUESTION = {"r": 0.13, "t": 0.8, "start": 1, "draws": 500, "seed": 3}
EDITED = [[0, 0, 50, 0.5], [1, 0, 0, 0], [0, 3, 0, 0], [0.25, 0, 0, 0]]


def tensor(numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def generator_of(rates):
    matrix = tensor(rates)
    return ConstantGenerator(matrix - torch.diag(matrix.sum(0)))


@pytest.mark.parametrize("name", [*paper_chains(), "edited"])
def test_exact_numbers_are_those_of_the_library(name, ask, client):
    chains = client.get("/api/start").json()["chains"]
    rates = chains.get(name, EDITED)
    u = paper_chains().get(name) or generator_of(rates)
    view = ask("/api/chain", rates=rates, **QUESTION)
    r, t, start = (QUESTION[key] for key in ("r", "t", "start"))
    assert torch.equal(tensor(view["exact"]), transition(u, r, t))
    assert torch.equal(tensor(view["mean rate"]), mean_rate(u, r, t))
    assert view["exact residual"] == identity_residual(u, r, t).abs().max().item()
    times = tensor(view["times"])
    assert (times[0], times[-1]) == (r, 1)
    assert torch.equal(tensor(view["exact flow"]), transition(u, r, times)[..., start])


@pytest.fixture(scope="module")
def learned(client, ring_rates):
    """The view of the ring when its kernel is there."""
    shown = []
    while True:
        view = client.post("/api/chain", json={"rates": ring_rates, **QUESTION}).json()
        shown.append(view["training"]["progress"])
        if view["learned"]:
            return view, shown
        time.sleep(0.1)


def test_learned_numbers_are_those_of_the_library(learned):
    """Of the kernel that ``train_kernel`` returns."""
    view, shown = learned
    assert shown == sorted(shown)
    assert (shown[-1], view["training"]["error"]) == (1, None)
    u, numbers = ring(), view["learned"]
    r, t, start = (QUESTION[key] for key in ("r", "t", "start"))
    kernel = train_kernel(chain_problem(u), RECIPE, SEED).requires_grad_(False)
    matrix = kernel.matrix(r, t).double()
    exact = transition(u, r, t)
    assert torch.equal(tensor(numbers["kernel"]), matrix)
    assert torch.equal(tensor(numbers["difference"]), matrix - exact)
    assert (matrix - exact).abs().max() < 0.02
    residual = identity_residual(u, r, t, lambda r, t: kernel.matrix(r, t).double())
    assert torch.equal(tensor(numbers["residual"]), residual)
    flow = kernel.matrix(r, tensor(view["times"]))[..., start]
    assert torch.equal(tensor(numbers["flow"]).float(), flow)
    states = torch.full((QUESTION["draws"],), start)
    samples = KernelSampler(kernel, (r, t)).sample(states, seeded(QUESTION["seed"]))
    counts = torch.bincount(samples, minlength=3)
    assert torch.equal(tensor(numbers["samples"]), counts / tensor(QUESTION["draws"]))
    assert numbers["tv"] == pytest.approx(
        (tensor(numbers["samples"]) - exact[:, start]).abs().sum().item() / 2
    )
    assert 0 < numbers["floor"] < 0.1


def test_training_again_keeps_the_kernel(learned, ring_rates, ask):
    assert ask("/api/chain/train", rates=ring_rates) == {"progress": 1, "error": None}


def test_waiting_chains_are_limited(monkeypatch):
    """Each chain waits once; more than the limit are refused, and errors are told."""
    begun, go_on = threading.Event(), threading.Event()

    def fail(self, chain):
        begun.set()
        go_on.wait()
        raise InputError("it failed")

    monkeypatch.setattr(Learner, "_trained", fail)
    learner = Learner()
    chains = [ChainRates(rates=[[0, i], [1, 0]]) for i in range(1, MOST_WAITING + 3)]
    learner.train(chains[0])
    begun.wait()
    for chain in chains[:-1] * 2:
        learner.train(chain)
    with pytest.raises(InputError, match="too many chains wait"):
        learner.train(chains[-1])
    assert learner.state(chains[1]) == {"progress": 0, "error": None}
    go_on.set()
    while learner.state(chains[-2])["error"] is None:
        time.sleep(0.01)
    assert learner.state(chains[0]) == {"progress": None, "error": "it failed"}
