"""Runs that are killed, stopped, or diverge."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from discrete_meanflow import OneStepModel
from discrete_meanflow.cli.train import Train
from discrete_meanflow.data import TokenArray
from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.files import folder_lock
from discrete_meanflow.io.from_python import dataset_from_python
from discrete_meanflow.io.table.table_codec import TableCodec
from discrete_meanflow.model import (
    display,
    run_folder as run,
    train as training,
)
from discrete_meanflow.model.options import FitOptions, ReadOptions
from discrete_meanflow.model.prepare import prepare
from discrete_meanflow.model.tensor_files import read_tokens
from discrete_meanflow.path import MixedPaths
from discrete_meanflow.training import Distributed, Recipe, Trainer, checkpoint, resumable
from own_records import ATTENTION, ROWS, SMALL, prepared, train_run
from test_cli import in_process


def interrupt(event):
    """Press Ctrl-C after each block of steps."""
    if event.loss is not None:
        os.kill(os.getpid(), signal.SIGINT)


def test_temporary_files_of_killed_writers_are_removed(tmp_path):
    folder = prepared(tmp_path / "run")
    (folder / ".checkpoint-1.safetensors.1.2.tmp").write_text("half")
    train_run(folder)
    assert not list(folder.glob(".*"))


def test_teacher_pairs_are_not_generated_for_a_finished_stage(tmp_path):
    folder, pairs = prepared(tmp_path / "run"), []

    def listen(event):
        if event.loss is None:
            pairs.append(event.fraction)

    train_run(folder, listen)
    assert len(pairs) == 1
    weights = folder / "weights.safetensors"
    before = weights.read_bytes()
    weights.unlink()
    train_run(folder, listen)
    assert len(pairs) == 1
    assert weights.read_bytes() == before


def test_run_resumes_only_on_its_kind_of_device(tmp_path):
    """A GPU has other random numbers than a CPU."""
    folder = prepared(tmp_path / "run")

    with pytest.raises(Interrupted):
        train_run(folder, interrupt)
    path = folder / "checkpoint-1.safetensors"
    with safe_open(path, "pt") as file:
        note = json.loads(file.metadata()["note"]) | {"device": "cuda"}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, path, {"note": json.dumps(note)})
    with pytest.raises(InputError, match="made on cuda"):
        train_run(folder)


def same(kernel, parameters):
    found = dict(kernel.named_parameters())
    return all(torch.equal(found[name], p) for name, p in parameters.items())


def test_stopped_run_can_be_sampled_from_its_checkpoint(tmp_path, monkeypatch, capsys):
    folder, weights = prepared(tmp_path / "run"), {}

    def stop(event):
        if event.kernel is not None:
            weights.update({name: p.clone() for name, p in event.kernel().named_parameters()})
        interrupt(event)

    with pytest.raises(Interrupted):
        train_run(folder, stop)
    with pytest.raises(InputError, match="is not finished; use dmf train --resume"):
        OneStepModel.load(folder)
    model = OneStepModel.load(folder, from_checkpoint=True)
    assert same(model.kernel, weights)
    capsys.readouterr()
    code, out, _ = in_process(
        monkeypatch, capsys, "sample", folder, "-n", 4, "--seed", 1, "--from-checkpoint"
    )
    assert (code, out) == (0, "".join(f"{word}\n" for word in model.sample(4, seed=1)))


def test_last_checkpoint_has_the_final_weights(tmp_path):
    folder = prepared(tmp_path / "run")
    train_run(folder)
    trained = dict(OneStepModel.load(folder).kernel.named_parameters())
    (folder / run.WEIGHTS).unlink()
    assert same(OneStepModel.load(folder, from_checkpoint=True).kernel, trained)


def test_checkpoint_of_another_network_is_rejected(tmp_path):
    folder = prepared(tmp_path / "run")
    with pytest.raises(InputError, match="no checkpoint yet"):
        OneStepModel.load(folder, from_checkpoint=True)
    config = run.read_config(folder)
    names = [name for name, _ in config.plan.kernel(config.codec).named_parameters()]
    path = folder / "checkpoint-1.safetensors"
    save_file({f"ema/{name}": torch.zeros(2, 3) for name in names}, path)
    with pytest.raises(InputError, match="too few for the network"):
        OneStepModel.load(folder, from_checkpoint=True)
    save_file({f"ema/{name}": torch.zeros(9999, 3) for name in names}, path)
    with pytest.raises(InputError, match="float32 of shape"):
        OneStepModel.load(folder, from_checkpoint=True)
    save_file({f"ema/{name}": torch.zeros(9999, 3) for name in names[1:]}, path)
    with pytest.raises(InputError, match="unexpected tensor names"):
        OneStepModel.load(folder, from_checkpoint=True)


KILLED = """
import builtins, os, random, shutil, signal, sys, time
from pathlib import Path
import discrete_meanflow.training.resumable as resumable
from discrete_meanflow.model.run_folder import CHECKPOINTS, read_config
from discrete_meanflow.model.train import train
from discrete_meanflow.training import Distributed
from discrete_meanflow.training.checkpoint import iteration_in

resumable.SAVE_EVERY = 0.0  # a checkpoint after every block
opened, calls = open, {name: getattr(os, name) for name in ("fsync", "replace")}
ready, folder = Path(sys.argv[1]), Path(sys.argv[2])

def child(left):
    "A process that trains the run and dies before it touches the disk for the ``left``-th time."
    def fragile(call):
        def wrapped(*args, **options):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **options)
        return wrapped

    pid = os.fork()
    if not pid:
        for name, call in calls.items():
            setattr(os, name, fragile(call))
        write = fragile(opened)
        builtins.open = lambda path, mode="r", *args, **options: (
            opened if mode[0] == "r" else write)(path, mode, *args, **options)
        train(folder, read_config(folder), Distributed())
        os._exit(0)
    return pid

def ended(pid):
    return os.waitpid(pid, 0)[1] == 0

def reset():
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ready, folder)

def weights():
    return (folder / "weights.safetensors").read_bytes()

reset()
train(folder, read_config(folder), Distributed())  # imports once for all children
reset()
started = time.monotonic()
assert ended(child(0))
seconds, whole = time.monotonic() - started, weights()

killed = 0
while True:  # at each call, the first, the second, ...
    reset()
    if ended(child(killed + 1)):
        break
    killed += 1
    assert ended(child(0))
    assert weights() == whole, f"killed at call {killed}"

rng, seen = random.Random(0), set()
reset()
kills = 0
while kills < 20 or (len(seen) < 5 and kills < 200):  # at random moments
    kills += 1
    pid = child(0)
    time.sleep(rng.uniform(0, seconds * max(1, kills / 20)))  # longer on a busy machine
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    seen.add(tuple(iteration_in(folder / name) for name in CHECKPOINTS))
    if (folder / "weights.safetensors").exists():
        assert weights() == whole
        reset()
assert ended(child(0))
assert weights() == whole
print(killed, len(seen))
"""


def test_killed_run_ends_with_the_same_weights(tmp_path, monkeypatch):
    """kill -9 before each write, flush and rename, and at random moments: the same weights."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    two_blocks = {"teacher_steps": 20, "student_steps": 20, "matching_steps": 20, "block": 10}
    ready = prepared(tmp_path / "ready", **two_blocks)
    words = [sys.executable, "-c", KILLED, str(ready), str(tmp_path / "cut")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    killed, seen = map(int, done.stdout.split())
    assert killed >= 21  # opening, flush and rename of six checkpoints and the weights
    assert seen >= 4  # moments in all stages
    lines = (tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == list(range(10, 61, 10))


@pytest.mark.parametrize(
    ("number", "at", "network"),
    [
        (signal.SIGTERM, 1, {}),
        (signal.SIGINT, 3, {}),
        (signal.SIGINT, 3, ATTENTION | {"minibatch_ot": 8, "matching_steps": 0}),
        (signal.SIGINT, 5, {}),
        (signal.SIGINT, 5, {"accumulate": 4}),
        (signal.SIGTERM, 5, ATTENTION),
    ],
    ids=[
        "first stage",
        "second stage",
        "second stage, minibatch OT",
        "third stage",
        "third stage, accumulation",
        "third stage, attention",
    ],
)
def test_stopped_run_resumes_to_the_same_weights(number, at, network, tmp_path):
    """In any stage, each of which has two blocks."""
    steps = dict.fromkeys(("teacher_steps", "student_steps", "matching_steps"), 40)
    longer = {"block": 20, **steps, **network}
    whole, cut = prepared(tmp_path / "whole", **longer), prepared(tmp_path / "cut", **longer)
    train_run(whole)
    blocks = []

    def stop(event):
        if event.loss is None:
            return
        blocks.append(event.iteration)
        if len(blocks) == at:
            os.kill(os.getpid(), number)

    with pytest.raises(Interrupted):
        train_run(cut, stop)
    assert not (cut / "weights.safetensors").exists()
    train_run(cut)
    for name in ("weights.safetensors", run.TRAINING):
        assert (whole / name).read_bytes() == (cut / name).read_bytes()


def test_full_disk_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    folder = prepared(tmp_path / "run")
    train_run(folder)
    kept = (folder / "checkpoint-1.safetensors").read_bytes()
    for name in ("weights", "checkpoint-2"):
        (folder / f"{name}.safetensors").unlink()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot write .*: No space left on device"):
        train_run(folder)
    assert (folder / "checkpoint-1.safetensors").read_bytes() == kept
    assert not [path for path in folder.iterdir() if path.suffix == ".tmp"]


def test_diverging_training_reports_the_step(tmp_path, monkeypatch):
    """The saved state is one whose next block went well: step 4, as steps 7 and 8 diverged."""
    monkeypatch.setattr(resumable, "SAVE_EVERY", 0.0)
    folder, rate = prepared(tmp_path / "run", block=2), Recipe.learning_rate_at
    monkeypatch.setattr(
        Recipe, "learning_rate_at", lambda self, step: 1e8 if step >= 6 else rate(self, step)
    )
    with pytest.raises(InputError, match=r"(the loss is \w+ at step|the loss went from)"):
        train_run(folder)
    assert not (folder / "weights.safetensors").exists()
    assert checkpoint.iteration_in(folder / "checkpoint-1.safetensors") == 4
    monkeypatch.undo()
    train_run(folder)
    assert (folder / "weights.safetensors").exists()


def test_damaged_log_is_replaced(tmp_path):
    folder = prepared(tmp_path / "run")
    (folder / "metrics.jsonl").write_bytes(b"\xff\n" + b"[" * 100_000)
    train_run(folder)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [20, 30, 40]


def test_full_disk_while_logging_is_one_line(tmp_path, monkeypatch):
    folder = prepared(tmp_path / "run")

    def full(*args, **options):
        raise OSError(28, "No space left on device")

    from torch.utils.tensorboard import SummaryWriter

    monkeypatch.setattr(SummaryWriter, "add_scalar", full)
    with pytest.raises(InputError, match=r"cannot write to .*No space left"):
        train_run(folder)


def test_generation_of_teacher_pairs_can_be_stopped(tmp_path):
    folder = prepared(tmp_path / "run")
    config = run.read_config(folder)
    data = TokenArray(read_tokens(folder / run.TRAIN, config.codec), config.codec.vocabulary)
    first, kernel = config.plan.problem(config.codec, data), config.plan.kernel(config.codec)
    with pytest.raises(Interrupted):
        config.plan.distillation.problem(first, kernel, 0, lambda done: True)


def test_run_is_locked_against_a_second_process(tmp_path):
    folder = prepared(tmp_path / "run")
    with (
        folder_lock(folder),
        pytest.raises(InputError, match="is being trained by another process"),
    ):
        train_run(folder)
    train_run(folder)
    assert (folder / "weights.safetensors").exists()


def test_second_ctrl_c_shows_how_to_resume(tmp_path, monkeypatch, capsys):
    def stop(event):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    folder = prepared(tmp_path / "run")
    log = SimpleNamespace(add=stop, close=lambda: None)
    monkeypatch.setattr(training, "MetricsLog", lambda *_: log)
    code, _, err = in_process(monkeypatch, capsys, "train", "--resume", folder, "--device", "cpu")
    assert code == 130
    assert f"To resume from the last checkpoint: dmf train --resume {folder}." in err


def test_progress_is_printed_as_lines_without_a_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(display, "SHOW_EVERY", 0.0)
    folder = prepared(tmp_path / "run", teacher_pairs=16)
    code, out, _ = in_process(monkeypatch, capsys, "train", "--resume", folder, "--device", "cpu")
    assert code == 0
    assert re.search(r"run: \d0 %  20 of 40 steps  teacher loss \d\.\d+  [\d,]+ tokens/s", out)
    assert re.search(r"run: \d0 %  generating teacher pairs", out)
    assert "run: 100 %  40 of 40 steps" in out
    assert re.search(r"^samples at step 40 \(steps=1\):  \w+", out, re.MULTILINE)


def test_run_on_a_table_resumes(tmp_path):
    kind, dataset = dataset_from_python(ROWS)
    description = dataset.codec.describe()
    assert TableCodec.from_json(description).describe() == description
    prepare(tmp_path / "run", kind, dataset, SMALL, Distributed())

    with pytest.raises(Interrupted):
        train_run(tmp_path / "run", interrupt)
    train_run(tmp_path / "run")
    assert (tmp_path / "run" / "weights.safetensors").exists()


def test_command_of_a_run_can_be_repeated(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("ab\ncd\n")
    plain = Train(path, reading=ReadOptions(pad=False), fit=FitOptions(seed=3))
    assert plain.command == "dmf train words.txt --no-pad --seed 3"
    reading = ReadOptions(label=str(path), drop=("a", "b c"))
    sized = Train(path, reading=reading, fit=FitOptions(0.1, size=1234567.0))
    assert sized.command == (
        "dmf train words.txt --drop a 'b c' --label words.txt --minutes 0.1 --size 1234567"
    )
    spaced = tmp_path / "my words.txt"
    spaced.write_text("ab\ncd\n")
    command = Train(spaced, reading=ReadOptions(label="a b")).command
    assert command == "dmf train 'my words.txt' --label 'a b'"


@pytest.mark.parametrize(
    ("name", "folder"),
    [("names.txt", "names"), ("a.b.csv", "a.b"), (".names.txt", "names"), ("x.npy.gz", "x")],
)
def test_run_is_named_after_its_file(name, folder, tmp_path):
    (tmp_path / name).write_text("ab\ncd\n")
    assert Train(tmp_path / name).default_folder == Path("runs") / folder


def test_step_of_a_nan_loss_counts_both_stages(tmp_path, monkeypatch):
    """Step 3 of the second stage is step 23 of the run."""
    folder = prepared(tmp_path / "run", teacher_steps=20, student_steps=20, block=10)
    draw = Trainer._draw

    def spoilt(trainer, steps, generators):
        paths = draw(trainer, steps, generators)
        if isinstance(trainer.problem.paths, MixedPaths):
            paths.x[2] = torch.nan
        return paths

    monkeypatch.setattr(Trainer, "_draw", spoilt)
    with pytest.raises(InputError, match=r"the loss is nan at step 23: .* Try a smaller size"):
        train_run(folder)
