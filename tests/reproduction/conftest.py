"""Small data files for toy runs, and the command `dmf` in this process."""

import gzip
import sys

import numpy
import pytest

from discrete_meanflow.cli import main


@pytest.fixture(scope="session")
def small_data(tmp_path_factory):
    """A folder with a small version of each file that an experiment reads."""
    folder, rng = tmp_path_factory.mktemp("data"), numpy.random.default_rng(0)

    def words(count, symbols, shortest, longest):
        lengths = rng.integers(shortest, longest + 1, count)
        return ["".join(rng.choice(list(symbols), n)) for n in lengths]

    def write(name, lines):
        content = "".join(f"{line}\n" for line in lines).encode()
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)

    for part in ("train", "test"):
        rows = rng.integers(0, 2, (60, 16))
        write(f"debd_binary/nltcs.{part}.data.gz", [",".join(map(str, row)) for row in rows])
    write("names/names.txt", words(120, "abcdef", 2, 6))
    chains = ["C" * n + end for n in range(1, 12) for end in ("", "O", "N", "=O", "C(C)C")]
    write("qm9_smiles/qm9_rdkit_valid_canonical_unique.smi", dict.fromkeys(chains))
    family = [line for word in words(60, "ACGU-", 12, 12) for line in (">name", word)]
    write("protein_rna_msa/RF00059cm.fasta", family)
    grid = [[(3 * (i % 3) + i // 3 + j) % 9 for j in range(9)] for i in range(9)]
    grids = [rng.permutation(9)[grid].ravel() + 1 for _ in range(40)]
    write("sudoku17/solutions_random_isomorph_seed0.txt", ["".join(map(str, g)) for g in grids])
    return folder


@pytest.fixture
def command(monkeypatch, capsys):
    """Run a command here, without a second import of torch: (exit code, stdout, stderr)."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["dmf", *map(str, words)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code
        out = capsys.readouterr()
        return code, out.out, out.err

    return run
