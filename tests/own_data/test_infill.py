"""Infilling by command: several patterns, patterns of a file, patterns that begin with a hyphen."""

import gzip

import pytest
import torch
from hypothesis import given, settings, strategies as st

from discrete_meanflow import OneStepModel
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.array_codec import ArrayCodec
from discrete_meanflow.io.table.table_codec import TableCodec
from discrete_meanflow.io.text_codec import TextCodec
from discrete_meanflow.model import conditions
from discrete_meanflow.model.conditions import Conditions, read_conditions
from discrete_meanflow.model.options import SampleOptions
from discrete_meanflow.model.sampling import sample_tokens
from own_records import train_by_command, write
from test_cli import in_process

CODECS = {
    "text": TextCodec.of(["abc-", "ba-c"]),
    "array": ArrayCodec((2, 2), 4),
    "table": TableCodec.of("wxyz", [[cell] * 4 for cell in "abc-"]),
}


def spell(name, cells):
    """A pattern of four symbols, None for unknown ones."""
    if name == "table":
        return ",".join(f"{c}={v}" for c, v in zip("wxyz", cells, strict=True) if v is not None)
    if name == "array":
        return ",".join("?" if v is None else str("abc-".index(v)) for v in cells)
    return "".join("?" if v is None else v for v in cells)


cells = st.lists(st.sampled_from([None, None, "a", "b", "-"]), min_size=4, max_size=4)


@settings(max_examples=200, deadline=None)
@given(name=st.sampled_from(sorted(CODECS)), parts=st.lists(cells, max_size=3))
def test_several_patterns_all_hold(name, parts):
    codec, patterns = CODECS[name], tuple(spell(name, part) for part in parts)
    values = [{part[i] for part in parts} - {None} for i in range(4)]
    if any(len(known) > 1 for known in values):
        with pytest.raises(InputError, match=r"'.*' and '.*' contradict each other") as caught:
            codec.fix(patterns)
        assert sum(f"'{pattern}'" in str(caught.value) for pattern in set(patterns)) == 2
    else:
        merged = spell(name, [next(iter(known), None) for known in values])
        assert codec.fix(patterns) == codec.fix([merged])


@pytest.mark.parametrize("order", [1, -1])
def test_repeated_option_adds_a_condition(order, trained, monkeypatch, capsys):
    words = ["colour=blue", "letter=y"][::order]
    options = [word for pattern in words for word in ("--infill", pattern)]
    command = ("sample", trained / "table", "-n", 9)
    code, out, err = in_process(monkeypatch, capsys, *command, *options)
    assert code == 0, err
    assert {tuple(line.split(",")[:2]) for line in out.splitlines()[1:]} == {("blue", "y")}
    code, out, err = in_process(monkeypatch, capsys, *command, *options, "--infill=colour=red")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "'colour=blue' and 'colour=red' contradict each other" in err
    seeds = [("--seed", 1, "--seed", 2), ("--seed", 2)]  # the last one wins
    outs = [in_process(monkeypatch, capsys, *command, *seed)[1] for seed in seeds]
    assert outs[0] == outs[1]


def test_pattern_may_begin_with_a_hyphen(tmp_path, monkeypatch, capsys):
    """As in aligned FASTA. Whatever follows --infill is its value, even the name of an option."""
    path = tmp_path / "aligned.fasta"
    path.write_text(
        "".join(f">{i}\n{'AC-'[i % 3]}{'-A'[i % 2]}{i % 7 * 'A':->6}\n" for i in range(60))
    )
    train_by_command(monkeypatch, capsys, path, tmp_path / "run")
    for words, begins in (
        (("--infill", "-A"), "-A"),
        (("--infill", "--A"), "--A"),
        (("--infill=--?A",), "--"),
        (("--infill", "-", "--infill", "?A"), "-A"),
    ):
        code, out, err = in_process(
            monkeypatch, capsys, "sample", tmp_path / "run", *words, "-n", 5
        )
        assert code == 0, err
        records = out.splitlines()[1::2]
        assert len(records) == 5
        assert all(record.startswith(begins) for record in records)
    for words, message in (
        (("--infill", "--seed"), "'s' at position 2 is not in the alphabet"),
        (("--infill",), "Missing value"),
        (("--class", "-1"), "trained without classes"),
    ):
        code, _, err = in_process(monkeypatch, capsys, "sample", tmp_path / "run", *words)
        assert (code, err.count("\n")) == (2, 1)
        assert message in err


def test_each_line_of_a_file_gets_its_records_in_order(trained, tmp_path, monkeypatch, capsys):
    patterns = [a + b for a in "abcd" for b in ("", "e", "?i")] + [""] + ["?f"]
    file = tmp_path / "patterns.gz"
    file.write_bytes(gzip.compress("\n".join(patterns).encode() + b"\n"))
    command = ("sample", trained / "lines", "--infill-file", file, "--seed", 0, "-n", 3)
    code, out, err = in_process(monkeypatch, capsys, *command)
    assert code == 0, err
    words = out.splitlines()
    assert len(words) == 3 * len(patterns)
    for i, word in enumerate(words):
        known = enumerate(patterns[i // 3])
        assert all(word[k] == symbol for k, symbol in known if symbol != "?")
    more = ("--infill", "??i", "--out", tmp_path / "out.txt")
    assert in_process(monkeypatch, capsys, *command, *more)[0] == 0
    assert {w[2] for w in (tmp_path / "out.txt").read_text().splitlines()} == {"i"}


def test_lines_of_a_file_are_sampled_together(trained, tmp_path):
    """One forward pass for a thousand patterns, and the number of an array in its header."""
    model, passes = OneStepModel.load(trained / "array", "cpu"), []
    model.kernel.network.register_forward_hook(lambda *_: passes.append(1))
    file = tmp_path / "patterns"
    file.write_text("".join(f"{i % 3},?,{i % 2}\n" for i in range(1000)))
    options = SampleOptions(2, infill_file=file)
    tokens = torch.cat(list(sample_tokens(model.kernel, model.config, options)))
    assert len(passes) == 1
    numbers = torch.arange(1000).repeat_interleave(2)
    assert torch.equal(tokens[:, 0].long(), numbers % 3)
    assert torch.equal(tokens[:, 2].long(), numbers % 2)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 40))
def test_groups_repeat_each_pattern_in_little_memory(patterns, count, rows):
    tokens = torch.arange(patterns)[:, None].expand(-1, 3).to(torch.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conditions, "GROUP_ROWS", rows)
        groups = list(Conditions(tokens, tokens > 2, count).groups())
    assert all(len(part) <= rows or len(part) == 1 for _, part, _ in groups)
    expanded = torch.cat([part.expand(n, 3) for n, part, _ in groups])
    assert torch.equal(expanded, tokens.long().repeat_interleave(count, 0))
    observed = torch.cat([part.expand(n, 3) for n, _, part in groups])
    assert torch.equal(observed, expanded > 2)


def test_bad_files_of_patterns_name_the_line(trained, tmp_path, monkeypatch, capsys):
    file = tmp_path / "patterns"
    for content, words, message in (
        ("", (), "patterns is empty: it contains no pattern"),
        ("a\nxx\n", (), "patterns, line 2: infill: 'x' at position 0"),
        ("a\n\nb", ("--infill", "a"), "patterns, line 3: infill: 'a' and 'b' contradict"),
        ("a\n\nb\n", ("--guidance", "2"), "patterns, line 2: guidance needs a condition"),
        ("a\n?\n", ("--guidance", "2"), "patterns, line 2: guidance needs a condition"),
        ("a\n", ("--class", "c"), "trained without classes"),
        (b"a\n\xff\n", (), "patterns, line 2: not UTF-8 text"),
        (None, (), "patterns: No such file or directory"),
    ):
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        words = ("sample", trained / "lines", "--infill-file", file, "-n", 1, *words)
        code, out, err = in_process(monkeypatch, capsys, *words)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert message in err
    file.write_text("a\n\n")
    words = ("sample", trained / "lines", "--infill-file", file, "--infill", "?e", "--guidance", 2)
    assert in_process(monkeypatch, capsys, *words)[0] == 0  # --infill is a condition of each line


def test_class_holds_for_each_line(tmp_path, monkeypatch, capsys):
    run = tmp_path / "run"
    model = train_by_command(
        monkeypatch, capsys, write(tmp_path, "table"), run, "--label", "colour"
    )
    (tmp_path / "lines").write_text("letter=x\n\ncolour=red\n")
    options = SampleOptions(4, label="red", infill_file=tmp_path / "lines", guidance=2.0)
    tokens = torch.cat(list(sample_tokens(model.kernel, model.config, options)))
    rows = model.config.codec.decode(tokens)
    assert {row[0] for row in rows} == {"red"}
    assert {row[1] for row in rows[:4]} == {"x"}
    with pytest.raises(InputError, match=r"line 3: infill: 'colour=red' and class 'blue'"):
        read_conditions(
            model.config.codec, SampleOptions(1, label="blue", infill_file=tmp_path / "lines")
        )
    with pytest.raises(InputError, match="must be a tuple"):
        SampleOptions(infill="ab")
