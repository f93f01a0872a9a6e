"""Runs that are killed, stopped, or come apart."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from discrete_meanflow.cli import generate
from discrete_meanflow.data import TokenArray
from discrete_meanflow.data.table_codec import TableCodec
from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.files import folder_lock
from discrete_meanflow.model import OneStepModel
from discrete_meanflow.model import run_folder as run
from discrete_meanflow.model import train as training
from discrete_meanflow.model.prepare import dataset_of, prepare
from discrete_meanflow.model.train import train
from discrete_meanflow.objective import OnCouples
from discrete_meanflow.training import Distributed, Recipe, Trainer, checkpoint, session
from own_records import ATTENTION, ROWS, prepared
from test_cli import in_process


def test_what_killed_writers_left_is_removed(tmp_path):
    folder = prepared(tmp_path / "run")
    (folder / ".checkpoint-1.safetensors.1.2.tmp").write_text("half")
    train(folder, Distributed(), lambda news: None)
    assert not list(folder.glob(".*"))


def test_couples_are_not_made_again_for_a_stage_that_has_ended(tmp_path, monkeypatch):
    folder, told = prepared(tmp_path / "run"), []
    train(folder, Distributed(), lambda news: None, told.append)
    assert told == [1.0]
    weights = folder / "weights.safetensors"
    before = weights.read_bytes()
    weights.unlink()
    train(folder, Distributed(), lambda news: None, told.append)
    assert told == [1.0]
    assert weights.read_bytes() == before


def test_a_run_stays_on_its_kind_of_device(tmp_path):
    """Random numbers of a GPU are others than those of a CPU."""
    folder = prepared(tmp_path / "run")

    def stop(news):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        train(folder, Distributed(), stop)
    path = folder / "checkpoint-1.safetensors"
    with safe_open(path, "pt") as file:
        note = json.loads(file.metadata()["note"]) | {"device": "cuda"}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, path, {"note": json.dumps(note)})
    with pytest.raises(InputError, match="made on cuda"):
        train(folder, Distributed(), lambda news: None)


def same(kernel, parameters):
    found = dict(kernel.named_parameters())
    return all(torch.equal(found[name], p) for name, p in parameters.items())


def test_a_run_that_was_stopped_can_be_sampled_as_it_is(tmp_path, monkeypatch, capsys):
    folder, met = prepared(tmp_path / "run"), {}

    def stop(news):
        met.update({name: p.clone() for name, p in news.kernel().named_parameters()})
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        train(folder, Distributed(), stop)
    with pytest.raises(InputError, match="not trained to the end: dmf train --resume"):
        OneStepModel.load(folder)
    found = OneStepModel.load(folder, so_far=True)
    assert same(found.kernel, met)
    capsys.readouterr()
    code, out, _ = in_process(
        monkeypatch, capsys, "sample", folder, "-n", 4, "--seed", 1, "--so-far"
    )
    assert (code, out) == (0, "".join(f"{word}\n" for word in found.sample(4, seed=1)))


def test_the_last_checkpoint_has_what_a_run_ends_with(tmp_path):
    folder = prepared(tmp_path / "run")
    train(folder, Distributed(), lambda news: None)
    trained = dict(OneStepModel.load(folder).kernel.named_parameters())
    (folder / run.WEIGHTS).unlink()
    assert same(OneStepModel.load(folder, so_far=True).kernel, trained)


def test_a_checkpoint_of_another_network_is_not_sampled(tmp_path):
    folder = prepared(tmp_path / "run")
    with pytest.raises(InputError, match="no checkpoint yet"):
        OneStepModel.load(folder, so_far=True)
    config = run.read_config(folder)
    names = [name for name, _ in config.plan.kernel(config.codec).named_parameters()]
    path = folder / "checkpoint-1.safetensors"
    save_file({f"ema/{name}": torch.zeros(2, 3) for name in names}, path)
    with pytest.raises(InputError, match="float32 of shape"):
        OneStepModel.load(folder, so_far=True)
    save_file({f"ema/{name}": torch.zeros(2, 3) for name in names[1:]}, path)
    with pytest.raises(InputError, match="has not the tensors that it should"):
        OneStepModel.load(folder, so_far=True)


KILLED = """
import builtins, os, random, shutil, signal, sys, time
from pathlib import Path
import discrete_meanflow.training.resumable as session
from discrete_meanflow.model.run_folder import CHECKPOINTS
from discrete_meanflow.model.train import train
from discrete_meanflow.training import Processes
from discrete_meanflow.training.checkpoint import iteration_in

session.SAVE_EVERY = 0.0  # a checkpoint after every block
opened, calls = open, {name: getattr(os, name) for name in ("fsync", "replace")}
ready, folder = Path(sys.argv[1]), Path(sys.argv[2])

def child(left):
    "A process that trains the run and dies before it touches the disk for the ``left``-th time."
    def fragile(call):
        def made(*given, **more):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*given, **more)
        return made

    pid = os.fork()
    if not pid:
        for name, call in calls.items():
            setattr(os, name, fragile(call))
        write = fragile(opened)
        builtins.open = lambda path, mode="r", *given, **more: (
            opened if mode[0] == "r" else write)(path, mode, *given, **more)
        train(folder, Processes(), lambda news: None)
        os._exit(0)
    return pid

def ended(pid):
    return os.waitpid(pid, 0)[1] == 0

def anew():
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ready, folder)

def weights():
    return (folder / "weights.safetensors").read_bytes()

anew()
train(folder, Processes(), lambda news: None)  # here: what it imports, children need not
anew()
started = time.monotonic()
assert ended(child(0))
seconds, whole = time.monotonic() - started, weights()

killed = 0
while True:  # at each call, the first, the second, ...
    anew()
    if ended(child(killed + 1)):
        break
    killed += 1
    assert ended(child(0))
    assert weights() == whole, f"killed at call {killed}"

chance, seen = random.Random(0), set()
anew()
kills = 0
while kills < 20 or (len(seen) < 3 and kills < 200):  # at any moment, on and on
    kills += 1
    pid = child(0)
    time.sleep(chance.uniform(0, seconds))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    seen.add(tuple(iteration_in(folder / name) for name in CHECKPOINTS))
    if (folder / "weights.safetensors").exists():
        assert weights() == whole
        anew()
assert ended(child(0))
assert weights() == whole
print(killed, len(seen))
"""


def test_a_run_that_is_killed_ends_as_if_it_was_not(tmp_path, monkeypatch):
    """kill -9 before each write, flush and rename, and at random moments: the same weights."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    ready = prepared(tmp_path / "ready", iterations=20, second=20, block=10)  # two blocks a stage
    words = [sys.executable, "-c", KILLED, str(ready), str(tmp_path / "cut")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    killed, seen = map(int, done.stdout.split())
    assert killed >= 15  # opening, flush and rename of four checkpoints and the weights
    assert seen >= 3  # moments in both stages
    lines = (tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == list(range(10, 41, 10))


@pytest.mark.parametrize(
    ("number", "at", "network"),
    [(signal.SIGTERM, 1, {}), (signal.SIGINT, 3, {}), (signal.SIGINT, 3, ATTENTION)],
    ids=["first stage", "second stage", "with attention"],
)
def test_a_run_that_is_asked_to_stop_saves_first(number, at, network, tmp_path):
    """In the first stage and in the second; then it goes on as if nothing had been."""
    longer = {"iterations": 200, "second": 200, **network}  # two blocks a stage
    whole, cut = prepared(tmp_path / "whole", **longer), prepared(tmp_path / "cut", **longer)
    train(whole, Distributed(), lambda news: None)
    heard = []

    def stop(news):
        heard.append(news.iteration)
        if len(heard) == at:
            os.kill(os.getpid(), number)

    with pytest.raises(Interrupted):
        train(cut, Distributed(), stop)
    assert not (cut / "weights.safetensors").exists()
    train(cut, Distributed(), lambda news: None)
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (whole, cut)]
    assert weights[0] == weights[1]


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    folder = prepared(tmp_path / "run")
    train(folder, Distributed(), lambda news: None)
    kept = (folder / "checkpoint-1.safetensors").read_bytes()
    for name in ("weights", "checkpoint-2"):
        (folder / f"{name}.safetensors").unlink()

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot write .*: No space left on device"):
        train(folder, Distributed(), lambda news: None)
    assert (folder / "checkpoint-1.safetensors").read_bytes() == kept
    assert not [path for path in folder.iterdir() if path.suffix == ".tmp"]


def test_a_training_that_comes_apart_says_where(tmp_path, monkeypatch):
    """And keeps a state whose next block went well: that at 4, as steps 7 and 8 did not."""
    monkeypatch.setattr(session, "SAVE_EVERY", 0.0)
    folder, rate = prepared(tmp_path / "run", block=2), Recipe.learning_rate_at
    monkeypatch.setattr(
        Recipe, "learning_rate_at", lambda self, step: 1e8 if step >= 6 else rate(self, step)
    )
    with pytest.raises(InputError, match=r"(the loss is \w+ at step|the loss went from)"):
        train(folder, Distributed(), lambda news: None)
    assert not (folder / "weights.safetensors").exists()
    assert checkpoint.iteration_in(folder / "checkpoint-1.safetensors") == 4
    monkeypatch.undo()
    train(folder, Distributed(), lambda news: None)
    assert (folder / "weights.safetensors").exists()


def test_a_damaged_log_is_begun_anew(tmp_path):
    folder = prepared(tmp_path / "run")
    (folder / "metrics.jsonl").write_bytes(b"\xff\n" + b"[" * 100_000)
    train(folder, Distributed(), lambda news: None)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [20, 40]


def test_a_full_disk_while_logging_is_told(tmp_path, monkeypatch):
    folder = prepared(tmp_path / "run")

    def full(*given, **more):
        raise OSError(28, "No space left on device")

    from torch.utils.tensorboard import SummaryWriter

    monkeypatch.setattr(SummaryWriter, "add_scalar", full)
    with pytest.raises(InputError, match=r"cannot write to .*No space left"):
        train(folder, Distributed(), lambda news: None)


def test_couples_can_be_stopped(tmp_path):
    folder = prepared(tmp_path / "run")
    config = run.read_config(folder)
    data = TokenArray(run.read_tokens(folder, run.TRAIN, config.codec), config.codec.vocabulary)
    first, kernel = config.plan.problem(config.codec, data), config.plan.kernel(config.codec)
    with pytest.raises(Interrupted):
        config.plan.coupling.problem(first, kernel, 0, lambda done: True)


def test_a_run_is_trained_by_one_process_at_a_time(tmp_path):
    folder = prepared(tmp_path / "run")
    with (
        folder_lock(folder),
        pytest.raises(InputError, match="is being trained by another process"),
    ):
        train(folder, Distributed(), lambda news: None)
    train(folder, Distributed(), lambda news: None)
    assert (folder / "weights.safetensors").exists()


def test_a_second_ctrl_c_tells_how_to_go_on(tmp_path, monkeypatch, capsys):
    def stop(news):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    folder = prepared(tmp_path / "run")
    monkeypatch.setattr(training, "Log", lambda *_: SimpleNamespace(add=stop, close=lambda: None))
    code, _, err = in_process(monkeypatch, capsys, "train", "--resume", folder, "--device", "cpu")
    assert code == 130
    assert f"To go on: dmf train --resume {folder}." in err


def test_where_there_is_no_terminal_lines_tell_of_the_training(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generate, "SHOW_EVERY", 0.0)
    folder = prepared(tmp_path / "run")
    code, out, _ = in_process(monkeypatch, capsys, "train", "--resume", folder, "--device", "cpu")
    assert code == 0
    assert "of 40 steps" in out
    assert "loss" in out
    assert "tokens/s" in out


def test_a_table_run_resumes(tmp_path):
    kind, dataset = dataset_of(ROWS)
    words = dataset.codec.describe()
    assert TableCodec.from_json(words).describe() == words
    prepare(tmp_path / "run", kind, dataset, "cpu", iterations=40, size=1e4, batch=16)

    def stop(news):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        train(tmp_path / "run", Distributed(), stop)
    train(tmp_path / "run", Distributed(), lambda news: None)
    assert (tmp_path / "run" / "weights.safetensors").exists()


def test_the_command_of_a_run_can_be_given_again(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("ab\ncd\n")
    assert (
        generate.Train(path, pad=False, seed=3)._command == "dmf train words.txt --no-pad --seed 3"
    )
    sized = generate.Train(path, size=1234567.0, minutes=0.1, label=str(path))._command
    assert sized == "dmf train words.txt --minutes 0.1 --size 1234567 --label words.txt"
    odd = tmp_path / "my words.txt"
    odd.write_text("ab\ncd\n")
    assert generate.Train(odd, label="a b")._command == "dmf train 'my words.txt' --label 'a b'"


@pytest.mark.parametrize(
    ("name", "folder"),
    [("names.txt", "names"), ("a.b.csv", "a.b"), (".names.txt", "names"), ("x.npy.gz", "x")],
)
def test_a_run_is_named_after_its_file(name, folder, tmp_path):
    (tmp_path / name).write_text("ab\ncd\n")
    assert generate.Train(tmp_path / name)._default_folder == Path("runs") / folder


def test_steps_are_counted_through_where_a_loss_is_none(tmp_path, monkeypatch):
    """In the second stage, at its third step: those of the first count, as in the log."""
    folder, draw = prepared(tmp_path / "run", iterations=20, second=20, block=10), Trainer._draw

    def spoilt(trainer, steps, generators):
        paths = draw(trainer, steps, generators)
        if isinstance(trainer.problem.objective, OnCouples):
            paths.x[2] = torch.nan
        return paths

    monkeypatch.setattr(Trainer, "_draw", spoilt)
    with pytest.raises(InputError, match=r"the loss is nan at step 23: .* Try a smaller --size"):
        train(folder, Distributed(), lambda news: None)
