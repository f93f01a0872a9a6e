"""Laws of data parallelism: several ranks train as one, on the same data."""

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time

import psutil
import pytest
import torch

from discrete_meanflow.data import BigramChain
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel
from discrete_meanflow.network import DiT
from discrete_meanflow.objective import ResidualKL
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.times import ClockUniform
from discrete_meanflow.training import (
    Distributed,
    FlowMapDistillation,
    MatchingDistillation,
    Recipe,
    Trainer,
    checkpoint,
    distillation,
    sequence_problem,
)

LAW = BigramChain.dirichlet(3, 4, 1.0)
SCRIPT = textwrap.dedent("""
    import atexit, psutil, sys, torch
    # Registered before the processes meet, so asked after all that they leave to the end.
    atexit.register(lambda: print("alone" if psutil.Process().num_threads() == 1 else "not"))
    from discrete_meanflow.training import Distributed, Recipe, Trainer
    sys.path.insert(0, sys.argv[2])
    from laws.test_distributed import pairs, problem, RECIPE
    torch.set_num_threads(1)
    ranks = Distributed.from_environment("cpu")
    trainer = Trainer(problem(sys.argv[3]), RECIPE, [0], distributed=ranks)
    losses = [record.loss for record in trainer.blocks()]
    made = pairs(ranks) if sys.argv[3] == "flow map" else ()
    torch.save((losses, trainer.parameters, made), f"{sys.argv[1]}/{ranks.rank}.pt")
""")
RECIPE = Recipe(6, batch=16, learning_rate=1e-3, ema_decay=0.9, block=3)


def problem(name):
    if name == "matching":  # a random teacher and its pairs
        first, teacher = problem("flow map"), random_flow_map()
        second = FlowMapDistillation(40, 2, RECIPE).problem(first, teacher, 0)
        return MatchingDistillation(RECIPE).problem(first, second, teacher)
    if name == "flow map":
        return sequence_problem(LAW, process=OneHotFlow)
    return sequence_problem(LAW, objective=ResidualKL())  # takes a derivative in forward mode


def random_flow_map():
    network = DiT(3, 4, 32, 1, 2)
    for i, p in enumerate(network.parameters()):
        torch.nn.init.normal_(p, generator=torch.Generator().manual_seed(i))
    return FlowMapKernel(network, 3)


def pairs(ranks):
    """From an untrained kernel, in seven chunks: the last round has work for one of two ranks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distillation, "chunk_size", lambda *sizes: 10)
        rounds = []
        made = FlowMapDistillation(65, 2, RECIPE).teacher_pairs(
            DataPaths(OneHotFlow(3), LAW, ClockUniform(3), conditioning=0.5),
            random_flow_map(), 0, lambda done: bool(rounds.append(done)), ranks,
        )  # fmt: skip
    assert rounds[-1] == 1
    assert len(rounds) == math.ceil(7 / ranks.world_size)
    return made.starts, made.ends, made.times, made.observed, made.from_data


def alone(name, recipe=RECIPE):
    trainer = Trainer(problem(name), recipe, [0])
    return [record.loss for record in trainer.blocks()], trainer.parameters


def gap(a, b):
    return max((a[name] - b[name]).abs().max().item() for name in a)


TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0",
            "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]  # fmt: skip
ACCELERATE = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2",
              "--main_process_port", "0"]  # fmt: skip


def launched(words, launcher=TORCHRUN):
    """The words as a program of two processes."""
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # of the threads that are looked for
    line = [sys.executable, *launcher, *words]
    return subprocess.run(line, capture_output=True, text=True, env=alone)


@pytest.mark.parametrize(
    ("name", "launcher"),
    [("flow map", ACCELERATE), ("residual", TORCHRUN), ("matching", TORCHRUN)],
    ids=["flow map", "residual", "matching"],
)
def test_two_ranks_train_as_one(name, launcher, tmp_path):
    """The ranks agree bit for bit, and with one rank that has the whole batch."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = launched([str(script), str(tmp_path), "tests", name], launcher)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("alone") == 2  # a thread of gloo may abort its process at the end
    (losses, first, made), (others, second, theirs) = (
        torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1)
    )
    assert losses == others
    assert all(torch.equal(first[n], second[n]) for n in first)
    if name == "flow map":  # each rank made half of the pairs
        assert all(map(torch.equal, made, theirs))
        assert all(map(torch.equal, made, pairs(Distributed())))
    one, parameters = alone(name)
    assert torch.allclose(torch.tensor(losses), torch.tensor(one), rtol=1e-4)
    # AdamW's first steps follow the sign of tiny gradients: rounding shows, and no more.
    assert gap(first, parameters) < 0.3 * RECIPE.iterations * RECIPE.learning_rate


@pytest.mark.parametrize("name", ["flow map", "residual", "matching"])
def test_gradient_accumulation_is_the_whole_batch(name):
    losses, parameters = alone(name)
    pieces, others = alone(name, Recipe(**{**RECIPE.__dict__, "accumulate": 4}))
    assert torch.allclose(torch.tensor(losses), torch.tensor(pieces), rtol=1e-4)
    assert gap(parameters, others) < 0.3 * RECIPE.iterations * RECIPE.learning_rate


def test_the_parts_of_a_batch_are_disjoint():
    batch = torch.arange(8)[None]
    parts = [Distributed(2, rank).part(batch, 1)[0].tolist() for rank in (0, 1)]
    assert parts == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_batches_that_cannot_be_divided_are_rejected():
    with pytest.raises(InputError, match="divided among 3 ranks: use a multiple of 3"):
        Trainer(problem("flow map"), RECIPE, [0], distributed=Distributed(3, 0))
    with pytest.raises(InputError, match="accumulate=3 does not divide the batch of 16"):
        Recipe(1, batch=16, accumulate=3)


@pytest.mark.parametrize("launcher", [TORCHRUN, ACCELERATE], ids=["torchrun", "accelerate"])
def test_two_ranks_make_a_run(launcher, tmp_path):
    """``dmf train`` under a launcher, its later stages on one process alone."""
    words = [f"{a}{b}{c}" for a in "abcd" for b in "efgh" for c in "ijk"]
    (tmp_path / "words.txt").write_text("\n".join(words))
    given = ["train", str(tmp_path / "words.txt"), "--iterations", "8", "--size", "1e4",
             "--batch", "16", "--matching", "yes", "--device", "cpu", "--out"]  # fmt: skip
    two = launched(["-m", "discrete_meanflow", *given, str(tmp_path / "two")], launcher)
    assert two.returncode == 0, two.stderr
    taken = launched(["-m", "discrete_meanflow", *given, str(tmp_path / "two")], launcher)
    assert taken.returncode != 0
    assert taken.stderr.count("already contains a run") == 1  # and the other process ends with it
    assert "bug in dmf" not in taken.stderr
    assert two.stdout.count("trained:") == 1  # the first process speaks, the other is silent
    for name in ("weights", "checkpoint-2", "checkpoint-3"):
        (tmp_path / "two" / f"{name}.safetensors").unlink()
    again = [sys.executable, "-m", "discrete_meanflow", "train", "--resume", str(tmp_path / "two")]
    alone = [sys.executable, "-m", "discrete_meanflow", *given, str(tmp_path / "one")]
    for line in (again, alone):
        subprocess.run(line, check=True, capture_output=True)
    losses = [
        [json.loads(line)["loss"] for line in (tmp_path / name / "metrics.jsonl").open()]
        for name in ("one", "two")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_a_signal_to_one_rank_stops_all_and_one_resumes(tmp_path):
    """In the middle of a stage; the run then ends as if there had always been one."""
    words = [f"{a}{b}{c}" for a in "abcd" for b in "efgh" for c in "ijk"]
    (tmp_path / "words.txt").write_text("\n".join(words))
    given = ["-m", "discrete_meanflow", "train", str(tmp_path / "words.txt"), "--iterations", "800",
             "--size", "1e4", "--batch", "16", "--device", "cpu", "--out"]  # fmt: skip
    stopped, metrics = tmp_path / "stopped", tmp_path / "stopped" / "metrics.jsonl"
    line = [sys.executable, *TORCHRUN, *given, str(stopped)]
    with subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as launcher:
        ends = time.monotonic() + 100
        while not (metrics.exists() and metrics.read_text()) and time.monotonic() < ends:
            time.sleep(0.02)
        workers = psutil.Process(launcher.pid).children()
        workers[-1].send_signal(signal.SIGTERM)
        _, err = launcher.communicate(timeout=60)
    assert len(workers) == 2
    assert launcher.returncode != 0
    assert b"all progress is saved" in err
    done = checkpoint.iteration_in(stopped / "checkpoint-1.safetensors")
    assert 0 < done < 400
    again = [sys.executable, "-m", "discrete_meanflow", "train", "--resume", str(stopped)]
    alone = [sys.executable, *given, str(tmp_path / "one")]
    for line in (again, alone):
        subprocess.run(line, check=True, capture_output=True)
    losses = [
        {(words := json.loads(line))["iteration"]: words["loss"] for line in path.open()}
        for path in (metrics, tmp_path / "one" / "metrics.jsonl")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
