"""Every code block of the documentation runs: Python as it is, trainings at toy size."""

import re
import shlex
from unittest.mock import patch

import numpy
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

import discrete_meanflow as dmf
from discrete_meanflow import cli
from doc_pages import DOCS, PAGES, README, ROOT, at_toy_size, blocks, commands, name_of, run
from own_records import run_command

LONGEST = {"README.md": 10, "docs/reference/parts.md": 14, "docs/how-to/extend.md": 18}
WITH_PYTHON = [page for page in PAGES if blocks(page, "python")]
CHECKED = {"README.md", "docs/reference/parts.md", "docs/how-to/extend.md"} | {
    f"docs/theory/{name}.md" for name in ("distribution-matching",)
}
TOY = ["--iterations", "8", "--size", "1e4", "--batch", "16", "--device", "cpu"]
TOY_COMPARISON = [
    "--iterations",
    "4",
    "--size",
    "1e4",
    "--steps",
    "1",
    "-n",
    "8",
    "--device",
    "cpu",
]
PARSED = {"docs/how-to/reproduce.md", "docs/how-to/cluster.md"}  # too long to run


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_run_or_is_output(page):
    fences = re.findall(r"^ *```(.*)$", page.read_text(), re.M)
    assert not any(fences[1::2]), "a block is not closed"
    languages = {fence.split()[0] if fence else "none" for fence in fences[::2]}
    assert languages <= {"python", "sh", "text", "{toctree}", "{public-names}", "{commands}"}


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_code_blocks_are_short(page):
    for code in blocks(page, "python"):
        lines = [line for line in code.splitlines() if line]
        assert len(lines) <= LONGEST.get(name_of(page), 16), code


def test_readme_code_runs():
    names = run(blocks(README, "python"))
    assert (names["learned"] - names["exact"]).abs().max() < 0.05
    assert names["samples"].shape == names["x_0"].shape
    assert len(names["gen"].sample(3)) == 3


def test_parts_code_runs():
    names = run(blocks(DOCS / "reference/parts.md", "python"))
    assert (names["learned"] - names["exact"]).abs().max() < 0.05
    assert names["samples"].shape == (1000, 16)
    assert dmf.marginal_tv(names["samples"], names["data"]) < 0.15
    assert bool((names["filled"][:, :4] == names["tokens"][:, :4]).all())
    assert names["joint"].shape == (1000, 8)
    # The measured settings: our estimators train on pairs with t = r, the paper's does not.
    assert names["ours"].paths.times == dmf.MixedTimes(0.75, dmf.UniformGap(0.02), 0.0)
    assert names["paper"].paths.times == dmf.UniformGap(0.02)


def test_extending_code_runs():
    names = run(blocks(DOCS / "how-to/extend.md", "python"))
    assert names["samples"].shape == (100, 8)


def test_distribution_matching_code_runs():
    names = run(blocks(DOCS / "theory/distribution-matching.md", "python"))
    assert names["one"].shape == names["four"].shape == (1000, 8)
    weights = [next(names[kernel].parameters()) for kernel in ("student", "pair")]
    assert not torch.equal(*weights)


@pytest.mark.parametrize("page", [p for p in WITH_PYTHON if name_of(p) not in CHECKED], ids=name_of)
@pytest.mark.filterwarnings("ignore")  # models of a few steps
def test_other_code_runs(page):
    run(map(at_toy_size, blocks(page, "python")))


@pytest.mark.filterwarnings("ignore")
def test_commands_run(monkeypatch, capsys):
    """The commands of all pages in order, each once."""
    write_files()
    monkeypatch.setenv("NO_COLOR", "1")
    done = set()
    for page in PAGES:
        for words in commands(page):
            if words[0] != "dmf":
                check_other(words)
            elif name_of(page) in PARSED or "--web" in words or words[1] == "explore":
                parse(words[1:])  # pages are tested elsewhere
            elif (line := shlex.join(small := shortened(words[1:]))) not in done:
                done.add(line)
                assert not run_command(*small), f"{name_of(page)}: {line}\n{capsys.readouterr()}"
    assert len(done) > 25


def shortened(words):
    """The words of a command at toy size."""
    if "--minutes" in words:
        at = words.index("--minutes")
        words = words[:at] + words[at + 2 :]
    if words[0] == "train":
        return [*words, *TOY]
    if words[0] == "compare":
        return [*words, *TOY_COMPARISON]
    if words[0] == "evaluate":
        return [*words[:2], "-n", "20", "--steps", "1"]
    return words


def check_other(words):
    """A command other than ``dmf``: its extras, targets and options exist."""
    if words[0] == "pip":
        extras = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.M))
        for group in re.findall(r"\[(.*?)\]", " ".join(words)):
            assert set(group.split(",")) <= extras, group
    elif words[0] == "make":
        assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text()
    elif words[0] in ("torchrun", "accelerate"):
        parse(words[words.index("discrete_meanflow") + 1 :])
    elif words[0] == "ssh":
        parse(words[words.index("dmf") + 1 :])
    else:
        assert words[0] in ("npm", "python")


def parse(words):
    with patch("sys.argv", ["dmf", *words]):
        cli._parse(cli._commands(words))


def write_files():
    """A small file of each kind, under the names that the pages use."""
    g = numpy.random.default_rng(0)
    names = [a + b + c for a in ("ma", "no", "li", "ta") for b in "dlnrst" for c in ("", "a", "io")]
    tokens = Tokenizer(models.WordLevel({c: i for i, c in enumerate("abcdefghijklmnopqrstuvwxyz")}))
    tokens.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokens.save("tokenizer.json")
    molecules = ["CC(=O)" + "C" * n + x for n in range(12) for x in ("", "O", "N", "Cl", "F")]
    colours, header = ("red", "blue", "grey"), "id,colour,price,zip,letter"
    rows = [f"{i},{colours[i % 3]},{i % 30},{i % 7},{'abc'[i % 3]}" for i in range(90)]
    holes = [f"{i},{'' if i % 2 else 'red'},,{i % 7},a" for i in range(9)]
    family = [f">{i}\n--AC{''.join(g.choice(list('ACDE-'), 6))}" for i in range(60)]
    texts = {
        "names.txt": names,
        "patterns.txt": ["ma", "", "no"],
        "story.txt": ["it was a dark and stormy night.\n"] * 40,
        "molecules.smi": molecules,
        "table.csv": [header, *rows],
        "holes.csv": [header, *holes],
        "family.fasta": family,
    }
    for name, lines in texts.items():
        with open(name, "w") as file:
            file.write("\n".join(lines) + "\n")
    digits = g.integers(0, 3, (80, 3, 3))
    numpy.savez("digits.npz", x=digits, y=numpy.arange(80) % 4)
