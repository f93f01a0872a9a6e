"""Samples of a run: infilling, classes, many records, ONNX."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy
import onnx
import pytest
import torch

import measure
from discrete_meanflow import OneStepModel
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.array_codec import ArrayCodec
from discrete_meanflow.io.text_codec import TextCodec
from discrete_meanflow.model import export as exporting
from discrete_meanflow.model.export import export
from discrete_meanflow.model.options import FitOptions, SampleOptions
from discrete_meanflow.model.plan import Plan
from discrete_meanflow.model.sampling import sample_tokens
from discrete_meanflow.model.sizing import CPU_SIZE, choose_plan
from discrete_meanflow.sampler import chunk_size
from own_records import WORDS, train_by_command, write
from test_cli import in_process


def test_infill_keeps_the_known_part(trained):
    names = OneStepModel.load(trained / "lines", "cpu")
    assert all(name.startswith("ae") for name in names.sample(20, infill="ae??"))
    assert all(name[1] == "h" for name in names.sample(20, infill="?h", steps=3))
    rows = OneStepModel.load(trained / "table", "cpu").sample(20, infill="colour=blue,letter=y")
    assert all(row[:2] == ["blue", "y"] for row in rows)
    arrays = OneStepModel.load(trained / "array", "cpu").sample(20, infill="?,2")
    assert bool((arrays[:, 0, 1] == 2).all())
    alike = {
        "table": ("colour=blue", {"colour": "blue"}),
        "array": ("?,2,0,1,1,2", [[None, 2, 0], [1, 1, 2]], [None, 2, 0, 1, 1, 2]),
    }
    for kind, patterns in alike.items():
        model = OneStepModel.load(trained / kind, "cpu")
        assert len({str(model.sample(5, seed=0, infill=infill)) for infill in patterns}) == 1
    assert {len(name) for name in names.sample(20, infill="a?_")} <= {1, 2}  # nothing after the end
    for n, steps, infill in ((2.5, 1, None), (1, 1.5, None), (1, 1, {"a": 1})):
        with pytest.raises(InputError):
            names.sample(n, steps, infill=infill)
    listed = names.sample(5, seed=0, infill=["a", None, "i"])
    assert listed == names.sample(5, seed=0, infill="a?i")
    with pytest.raises(InputError, match="must name columns"):
        OneStepModel.load(trained / "table", "cpu").sample(1, infill=["blue"])
    escaped = TextCodec.of(["a?b\\", "??aa"])
    tokens, observed = escaped.infill("\\??\\\\")
    assert observed.tolist() == [True, False, True, False]
    assert [escaped.alphabet.symbols[i] for i in tokens[observed]] == ["?", "\\"]
    lines = TextCodec.of(["a\nb\t", "nt\\a"])
    tokens, observed = lines.infill("\\n\\tn\\\\")
    assert [lines.alphabet.symbols[i] for i in tokens[observed]] == ["\n", "\t", "n", "\\"]
    for codec, pattern in ((lines, "C\\a"), (escaped, "a\\n")):  # perhaps a bond of SMILES
        with pytest.raises(InputError, match=r"unknown escape .*; write a backslash as"):
            codec.infill(pattern)


def test_refined_samples_keep_the_known_part(trained, monkeypatch, capsys):
    model = OneStepModel.load(trained / "array", "cpu")
    options = {"infill": "?,2", "seed": 0}
    plain, refined, guided, hot = (
        model.sample(200, 4, **options, **more)
        for more in (
            {"temperature": 2.0},
            {"refine": True},
            {"refine": True, "guidance": 3.0},
            {"refine": True, "temperature": 2.0},
        )
    )
    assert all(bool((x[:, 0, 1] == 2).all()) for x in (refined, guided, hot))
    assert all(not numpy.array_equal(x, hot) for x in (plain, refined))
    once = model.sample(200, **options, refine=True)
    assert numpy.array_equal(once, model.sample(200, **options))
    words = ("sample", trained / "array", "-n", 200, "--steps", 4, "--seed", 0, "--refine")
    code, out, err = in_process(monkeypatch, capsys, *words, "--infill", "?,2")
    assert code == 0, err
    printed = [[int(n) for n in re.findall(r"\d+", line)] for line in out.splitlines()]
    assert numpy.array_equal(numpy.array(printed).reshape(refined.shape), refined)
    code, _, err = in_process(monkeypatch, capsys, *words, "--guidance", 2)
    assert (code, err.count("\n")) == (2, 1)
    assert "guidance needs a condition" in err


def test_classes_come_from_columns_arrays_and_files(trained, tmp_path, monkeypatch, capsys):
    """A column, an array of an .npz, a file of lines."""
    table = train_by_command(
        monkeypatch, capsys, write(tmp_path, "table"), tmp_path / "table", "--label", "colour"
    )
    assert all(row[0] == "red" for row in table.sample(9, label="red"))
    with pytest.raises(InputError, match="contradict each other"):
        table.sample(1, infill="colour=blue", label="red")

    x = numpy.random.default_rng(0).integers(0, 2, (40, 3))
    numpy.savez(tmp_path / "data.npz", x=x, y=x.sum(1))
    array = train_by_command(
        monkeypatch, capsys, tmp_path / "data.npz", tmp_path / "array", "--label", "y"
    )
    assert array.config.codec.classes == ("0", "1", "2", "3")
    assert (array.config.codec.length, array.sample(4, label=3).shape) == (5, (4, 3))
    out = tmp_path / "out.npy"
    words = ("sample", tmp_path / "array", "-n", 4, "--class", 3, "--out", out, "--seed", 0)
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert code == 0, err
    assert numpy.array_equal(numpy.load(out), array.sample(4, label=3, seed=0))
    records, classes = array.sample(200, seed=0, labels=True)
    known = array.config.codec.encode((x, [str(n) for n in x.sum(1)]))
    assert array.config.codec.classes_in(known) == [str(n) for n in x.sum(1)]
    words = ("sample", tmp_path / "array", "-n", 200, "--seed", 0, "--out", out, "--save-classes")
    assert in_process(monkeypatch, capsys, *words, tmp_path / "labels")[0] == 0
    assert (tmp_path / "labels").read_text().split() == classes
    assert numpy.array_equal(numpy.load(out), records)
    assert set(classes) == {"0", "1", "2", "3"}
    same = (*words[:-2], tmp_path / "labels", "--save-classes", tmp_path / "labels")
    code, _, err = in_process(monkeypatch, capsys, *same)
    assert (code, err.count("\n")) == (2, 1), err
    assert (tmp_path / "labels").read_text().split() == classes
    command = f"{sys.executable} -m discrete_meanflow sample {tmp_path / 'array'} -n 20000"
    piped = f"{command} --save-classes {tmp_path / 'piped'} | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", piped], capture_output=True, text=True)
    assert done.returncode == 0
    assert all(line.startswith("note: ") for line in done.stderr.splitlines()), done.stderr
    assert set((tmp_path / "piped").read_text().split()) <= set(classes)
    assert set(array.sample(9, label=2, labels=True)[1]) == {"2"}
    words = ("sample", tmp_path / "table", "-n", 20, "--save-classes", tmp_path / "column")
    code, shown, err = in_process(monkeypatch, capsys, *words)
    assert code == 0, err
    rows = [line.split(",") for line in shown.splitlines()]
    column = rows[0].index(table.config.codec.label)
    assert (tmp_path / "column").read_text().split() == [row[column] for row in rows[1:]]
    words = ("sample", trained / "lines", "-n", 2, "--save-classes", tmp_path / "no")
    code, shown, err = in_process(monkeypatch, capsys, *words)
    assert (code, shown) == (2, "")
    assert "trained without classes" in err
    assert not (tmp_path / "no").exists()

    (tmp_path / "classes").write_text("\n".join(word[0] for word in WORDS))
    path = write(tmp_path, "lines")
    words = train_by_command(
        monkeypatch,
        capsys,
        path,
        tmp_path / "lines",
        "--label",
        tmp_path / "classes",
        "--held-out",
        8,
    )
    tokens = next(
        sample_tokens(words.kernel, words.config, SampleOptions(6, label="c", infill=("?e",)))
    )
    codec = words.config.codec  # 4 classes and more symbols: not every number is a class
    assert codec.classes_in(tokens) == ["c"] * 6
    assert codec.classes_in(torch.full_like(tokens, codec.vocabulary - 1)) == ["?"] * 6
    classes = words.config.codec.encode((["ae"], ["c"]))[0, words.config.codec.inner.length :]
    assert (tokens[:, -len(classes) :] == classes).all()
    assert all(word[1:2] == "e" for word in words.config.codec.decode(tokens))
    assert json.loads((tmp_path / "lines" / "data.json").read_text())["classes"]["c"] == 12
    assert len(words.evaluate(4)["scores"]) == 6
    for options, message in (
        ({"label": "z"}, "no 'z'; the classes are a, b, c, d"),
        ({"infill": "????a"}, "5 positions"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            words.sample(1, **options)


def test_class_is_learned():
    """One-step samples have the class, with and without guidance."""
    words = [f"{a}{b}{c}" for a in "ab" for b in "ef" for c in "gh"] * 8
    data = [word + f"{i % 4}" for i, word in enumerate(words)]
    gen = OneStepModel.fit(
        data, labels=[word[0] for word in data], iterations=600, size=3e4, device="cpu"
    )
    for guidance in (1.0, 2.0):
        found = gen.sample(200, label="b", guidance=guidance, seed=0)
        assert sum(word[0] == "b" for word in found) > 190


STREAM = """
import sys
from discrete_meanflow.cli.sample import Sample
from discrete_meanflow.model.options import SampleOptions
from pathlib import Path
from measure import watched

def sampled(n):
    with watched() as peak:
        run, out = map(Path, sys.argv[1:3])
        Sample(run, options=SampleOptions(n, seed=0), out=out, device="cpu")()
    return peak[0]

sampled(20_000)  # imports, and a first chunk
few, many = max(sampled(20_000), sampled(20_000)), sampled(900_000)
print(many - few)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", ["lines.txt.gz", "table.csv", "table.parquet", "array.npz"])
def test_sampling_needs_constant_memory(name, trained, tmp_path, monkeypatch):
    words = [sys.executable, "-c", STREAM, trained / name.split(".")[0], tmp_path / name]
    bench = str(Path(measure.__file__).parent)
    monkeypatch.setenv("PYTHONPATH", bench, prepend=os.pathsep)
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # MiB; keeping all records would take 33 to 82; allocators vary by up to 20 per run
    assert float(done.stdout) < 27


@pytest.mark.parametrize("network", [{}, {"width": 16, "layers": 1, "heads": 2}])
def test_exported_graph_equals_the_kernel(network, trained, tmp_path):
    """For a table, with an MLP or attention. The kernel itself does not change."""
    model = OneStepModel.load(trained / "table", "cpu")
    plan = replace(model.config.plan, **network)
    kernel = plan.kernel(model.config.codec)
    for p in kernel.parameters():  # a fresh kernel is constant, whatever the graph
        torch.nn.init.normal_(p, std=0.3)
    model = OneStepModel(model.folder, replace(model.config, plan=plan), kernel)
    kinds_before = {name: tensor.dtype for name, tensor in kernel.named_buffers()}
    assert export(model.kernel, model.config, tmp_path / "graph.onnx") < 1e-5
    assert {name: tensor.dtype for name, tensor in kernel.named_buffers()} == kinds_before
    metadata = {p.key: p.value for p in onnx.load(tmp_path / "graph.onnx").metadata_props}
    columns = json.loads(metadata["codec"])["columns"]
    assert [column["name"] for column in columns] == ["colour", "letter", "k"]


def test_export_rejects_a_graph_that_differs(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "CLOSE", 0.0)
    with pytest.raises(InputError, match="differs from PyTorch"):
        OneStepModel.load(trained / "lines", "cpu").export(tmp_path / "graph.onnx")
    assert not list(tmp_path.iterdir())


def test_chunks_of_an_mlp_are_large():
    codec = ArrayCodec((28, 28), 2)
    plan = choose_plan(codec, "cpu", CPU_SIZE, FitOptions())
    assert chunk_size(784, 2, plan.network(codec)) > 5_000
    assert chunk_size(784, 2, replace(plan, width=32, heads=2).network(codec)) < 100


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no full device")
def test_full_device_is_one_line(trained):
    words = [sys.executable, "-m", "discrete_meanflow", "sample", str(trained / "lines")]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert "cannot print" in done.stderr


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_bf16_sampling_needs_a_gpu_and_bf16_training(device, trained):
    plan = OneStepModel.load(trained / "lines", "cpu").config.plan
    assert not plan.samples_in_bf16(torch.device(device))
    half = replace(plan, bf16=True)
    assert half.samples_in_bf16(torch.device(device)) == (device == "cuda")


def test_bf16_sampling_changes_little(trained, monkeypatch):
    model, seen = OneStepModel.load(trained / "lines", "cpu"), []
    model.kernel.network.register_forward_hook(
        lambda *_: seen.append(torch.is_autocast_enabled("cpu"))
    )
    options = SampleOptions(500, seed=0)
    whole = torch.cat(list(sample_tokens(model.kernel, model.config, options)))
    monkeypatch.setattr(Plan, "samples_in_bf16", lambda plan, device: True)
    half = torch.cat(list(sample_tokens(model.kernel, model.config, options)))
    assert seen == [False, True]
    assert (whole == half).float().mean() > 0.9
