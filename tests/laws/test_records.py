"""From a file to an array of tokens: alphabets, splits and line files."""

import contextlib
import gzip
import io
import json
import re
from pathlib import Path

import numpy
import pytest
import torch
from hypothesis import assume, given, strategies as st

from discrete_meanflow.data import split as parts, tokens as token_files
from discrete_meanflow.errors import InputError
from discrete_meanflow.io import chemistry, content
from discrete_meanflow.io.alphabet import Alphabet
from discrete_meanflow.io.chemistry import BOUND_ATOM, SYMBOL
from discrete_meanflow.io.content import LineFile
from discrete_meanflow.io.text_codec import TextCodec
from discrete_meanflow.io.text_kinds import Smiles
from dmf_reproduction import read

words = st.lists(st.text(st.characters(codec="utf-8"), max_size=6), min_size=1, max_size=8).filter(
    lambda strings: len(set().union(*strings)) >= 2
)


@given(words)
def test_decoding_undoes_encoding(strings):
    alphabet = Alphabet.of(strings)
    tokens = alphabet.encode(strings)
    assert tokens.shape == (len(strings), max(map(len, strings)))
    assert alphabet.decode(tokens) == strings
    assert (alphabet.pad is not None) == (len({len(s) for s in strings}) > 1)


smiles = st.lists(
    st.lists(
        st.sampled_from(
            ["C", "c", "l", "N", "1", "(", ")", "=", "[", "]", "[nH]", "[NH2+]", "Cl", "%12"]
        ),
        max_size=6,
    ).map("".join),
    min_size=1, max_size=8,
)  # fmt: skip


@given(smiles, st.sampled_from([SYMBOL, BOUND_ATOM]))
def test_alphabet_splits_strings_by_its_symbol_pattern(strings, symbol):
    """Also where the concatenation of two symbols contains a third one."""
    cuts = [symbol.findall(s) for s in strings]
    assume(len(set().union(*cuts)) >= 2)
    alphabet = Alphabet.of(strings, symbol)
    assert [alphabet.tokenize(s) for s in strings] == cuts
    tokens = alphabet.encode(strings)
    assert tokens.shape[1] == max(map(len, cuts))
    assert alphabet.decode(tokens) == strings


def test_bound_atom_is_one_symbol():
    symbols = BOUND_ATOM.findall("CC(=O)N1C[C@H]2CC12(F)/C=C\\Cl.[Na+]")
    assert " ".join(symbols) == "C C (=O) N1 C [C@H]2 C C12 (F) /C =C \\Cl .[Na+]"


def test_too_many_bound_atoms_are_split_into_parts(monkeypatch):
    few = ["CC(=O)N", "C1CC1", "CC=O"]
    codec = Smiles().of(few).codec
    assert codec.alphabet.symbols == ("(=O)", "=O", "C", "C1", "N", "_")
    assert codec.parse_infill("C?(=O)") == {0: 2, 2: 0}
    with pytest.raises(InputError, match=r"'\(' at position 1 is not in the alphabet \(=O\) =O C"):
        codec.parse_infill("C(=N)")
    monkeypatch.setattr(chemistry, "MAX_BOUND_ATOMS", 4)  # there are five
    assert Smiles().of(few).codec.alphabet.symbols == "()1=CNO_"
    many = TextCodec.of([f"[{i}]" for i in range(300)], SYMBOL)
    with pytest.raises(InputError) as error:
        many.parse_infill("C")
    assert len(str(error.value)) < 300


def test_bracket_atom_is_one_symbol():
    codec = TextCodec.of(["c1c[nH]cc1", "C[NH3+]", "ClCBr"], SYMBOL)
    assert codec.length == 7
    assert codec.alphabet.tokenize("CCl[nH]1") == ["C", "Cl", "[nH]", "1"]
    again = TextCodec.from_json(json.loads(json.dumps(codec.describe())))
    assert again == codec
    tokens, observed = again.infill("c?[nH]?1")
    assert observed.tolist() == [True, False, True, False, True, False, False]
    assert [codec.alphabet.symbols[i] for i in tokens[observed]] == ["c", "[nH]", "1"]
    with pytest.raises(InputError, match=r"'\[' at position 1 is not in the alphabet 1 Br C Cl"):
        codec.infill("C[OH]")


def test_pad_inside_a_record_is_decoded():
    alphabet = Alphabet.of(["ab", "b"])
    assert alphabet.symbols == "ab_"
    assert alphabet.decode(torch.tensor([[0, 2], [2, 1], [2, 2]])) == ["a", "_b", ""]
    assert Alphabet.of(["a_", "b"]).pad == "~"  # a symbol that no string contains


def distinct(tokens):
    return parts.take_rows(tokens, parts.first_occurrences(tokens))


@given(st.lists(st.integers(0, 5), min_size=3, max_size=30), st.integers(0, 3))
def test_split_has_no_duplicates_and_loses_no_record(values, seed):
    tokens = torch.tensor(values)[:, None]
    kinds = sorted(set(values))
    assert sorted(distinct(tokens)[:, 0].tolist()) == kinds
    if len(kinds) < 2:
        with pytest.raises(InputError, match="only one distinct record"):
            read.split(tokens, 1, seed)
        return
    with pytest.raises(InputError, match="cannot be held out"):
        read.split(tokens, len(kinds), seed)
    train, held_out = (part[:, 0].tolist() for part in read.split(tokens, 1, seed))
    assert len(held_out) == 1
    assert sorted([*train, *held_out]) == kinds


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40),
    st.sampled_from([1, 3, 1 << 63]),
)
def test_distinct_handles_chunks_and_hash_collisions(rows, factor):
    tokens = torch.tensor(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "SORTED", 8)
        patch.setattr(parts, "FACTOR", factor)
        rows_once = distinct(tokens)
    assert [tuple(row) for row in rows_once.tolist()] == list(dict.fromkeys(rows))


@given(
    st.lists(st.text(st.sampled_from("abc€"), max_size=4), min_size=4, max_size=30).filter(
        lambda strings: (
            len({len(s) for s in strings}) > 1
            and len(set(strings)) > 2
            and len(set().union(*strings)) > 1
        )
    ),
    st.sampled_from([SYMBOL, re.compile("ab|.")]),
    st.integers(1, 4),
)
def test_chunked_work_equals_work_at_once(strings, symbol, few):
    alphabet = Alphabet.of(strings, symbol)
    tokens = alphabet.encode(strings)
    once = list(dict.fromkeys(strings))
    known = alphabet.tokenize(max(strings))[0]
    order = numpy.random.default_rng(3).permutation(len(once))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_files, "CHUNK_ROWS", few)
        patch.setattr(parts, "SORTED", 20)
        assert alphabet.decode(alphabet.encode(strings)) == strings
        assert alphabet.decode(distinct(tokens)) == once
        train, apart = read.split(tokens, 2, seed=3)
        with pytest.raises(InputError, match=f"record {len(strings) + 1} contains '#'"):
            alphabet.encode([*strings, f"{known}#"])
        with pytest.raises(InputError, match=f"record {len(strings) + 1} has 9 symbols"):
            alphabet.encode([*strings, known * 9], tokens.shape[1])
    assert alphabet.decode(apart) == [once[i] for i in order[:2]]
    assert alphabet.decode(train) == [once[i] for i in order[2:]]


line_texts = st.text(st.sampled_from("ab\r\né€ "), max_size=40)


@given(line_texts, st.integers(1, 9))
def test_line_file_splits_lines_as_python_does(tmp_path_factory, text, piece):
    path = tmp_path_factory.mktemp("lines") / "file"
    path.write_bytes(text.encode())
    expected = [line for line in io.StringIO(text, newline=None).read().split("\n") if line]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "CHUNK_BYTES", piece)
        lines = LineFile(path)
        if not expected:
            with pytest.raises(InputError, match="is empty"):
                list(lines)
            return
        assert len(lines) == len(expected)
        assert list(lines) == list(lines) == expected
        assert expected[0] in lines


def test_file_that_changes_during_reading_raises(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    lines = LineFile(path)
    assert len(lines) == 2
    path.write_text("one\ntwo\nthree\n")
    assert list(lines) == ["one", "two"]
    path.write_text("one\n")
    with pytest.raises(InputError, match="changed while it was read"):
        Alphabet("enotw").encode(lines, 3)


def test_too_long_line_raises(tmp_path, monkeypatch):
    monkeypatch.setattr(content, "MAX_LINE", 20)
    path = tmp_path / "a.txt"
    path.write_text("a" * 30)
    with pytest.raises(InputError, match="a line has over 20 characters"):
        list(LineFile(path))


def test_smiles_header_is_not_a_record(tmp_path):
    path = tmp_path / "a.smi"
    path.write_text("SMILES name\n\nCCO ethanol\nsmiles 2\n")
    assert list(Smiles().read(path).records) == ["CCO", "smiles"]
    path.write_text("smiles\n")
    with pytest.raises(InputError, match="is empty"):
        Smiles().read(path)


def test_plain_and_gzipped_files_are_read(tmp_path):
    plain, packed = tmp_path / "a.txt", tmp_path / "b.gz"
    plain.write_bytes(b"anna\r\nbert\n\ncleo")
    packed.write_bytes(gzip.compress(b"anna\nbert\ncleo\n"))
    assert read.lines(plain) == read.lines(packed) == ["anna", "bert", "cleo"]
    fasta = tmp_path / "c.fasta"
    fasta.write_text(">one\nAC\nGU\n>two x\n\nAAAA\n")
    assert read.fasta(fasta) == ["ACGU", "AAAA"]
    fasta.write_text(">one\nAC\n>none\n>two\nGU")
    assert read.fasta(fasta) == ["AC", "GU"]
    rows = tmp_path / "d.data"
    rows.write_text("0,1,0\n1,1,1\n")
    assert read.whole_numbers(rows).tolist() == [[0, 1, 0], [1, 1, 1]]


@pytest.mark.parametrize(
    ("reader", "content", "message"),
    [
        (read.lines, b"", "is empty"),
        (read.lines, b"ok\n\xff\xfe\n", "line 2: not UTF-8"),
        (read.lines, b"ok\n\xc3", "line 2: not UTF-8"),
        (read.lines, b"\x1f\x8b\x08broken", "cannot read"),
        (read.fasta, b"ACGU\n", "line 1: a sequence before"),
        (read.fasta, b"", "no '>' line"),
        (read.whole_numbers, b"0,1\n1\n", "line 2: 1 numbers, the first line has 2"),
        (read.whole_numbers, b"0,1\n1,x\n", "line 2: needs comma-separated integers"),
    ],
)
def test_bad_file_raises_with_its_line(reader, content, message, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        reader(path)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_raise_input_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("fuzz") / "file"
    path.write_bytes(content)
    for reader in (read.lines, read.fasta, read.whole_numbers):
        with contextlib.suppress(InputError):  # and no other error
            reader(path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: read.lines(Path("/nowhere")), "cannot read"),
        (lambda: Alphabet("a"), "at least 2 symbols"),
        (lambda: Alphabet("aba"), "occurs twice"),
        (lambda: Alphabet(("a", "bc", "")), "a symbol is empty"),
        (lambda: Alphabet(("bc", "a\ud800")), "surrogate"),
        (lambda: Alphabet("ab", "c"), "not one of the symbols"),
        (lambda: Alphabet.of(["aa", "aa"]), "at least 2 symbols"),
        (lambda: Alphabet.of([chr(i) for i in range(20, 12_000)]), "distinct symbols, the limit"),
        (lambda: Alphabet("ab").encode(["ab", "a"]), "record 2 has 1 symbols, others 2"),
        (lambda: Alphabet("ab").encode(["ax"]), "record 1 contains 'x'"),
        (lambda: Alphabet.of(["_~^|\u2423", "a"]), "free one of them to serve as the pad"),
    ],
)
def test_bad_input_raises(call, message):
    with pytest.raises(InputError, match=message):
        call()
