"""A compressed file is read up to a limit, and an archive may contain other files."""

import gzip
import io
import zipfile

import numpy
import pandas
import pytest

from discrete_meanflow.errors import InputError
from discrete_meanflow.io import unpacking
from discrete_meanflow.io.array_codec import read_named_array
from discrete_meanflow.io.content import open_decompressed
from discrete_meanflow.io.detect import detect
from own_records import WORDS

LIMIT = 10_000
TABLE = pandas.DataFrame({"a": ["x", "y"] * 20_000, "b": [1, 2] * 20_000})
ARRAY = numpy.arange(60_000).reshape(-1, 6) % 2


def written(write):
    file = io.BytesIO()
    write(file)
    return file.getvalue()


BOMBS = {
    "a.txt": ("\n".join(WORDS) + "\n").encode() * 500,
    "a.csv": b"a,b\n" + b"x,1\ny,2\n" * 10_000,
    "a.npy": written(lambda file: numpy.save(file, ARRAY)),
    "a.npz": written(lambda file: numpy.savez_compressed(file, ARRAY)),
    "a.parquet": written(lambda file: TABLE.to_parquet(file, compression="zstd")),
}


def read(path):
    return detect(path).read(path).encoded()


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("gzipped", [False, True])
def test_file_that_unpacks_to_too_much_is_one_line(name, gzipped, tmp_path, monkeypatch):
    path = tmp_path / (name + ".gz" * gzipped)
    path.write_bytes(gzip.compress(BOMBS[name]) if gzipped else BOMBS[name])
    assert len(read(path)) > 1000  # below the limit
    monkeypatch.setattr(unpacking, "ALWAYS_READ", LIMIT)
    monkeypatch.setattr(unpacking, "MOST_TIMES", 2)
    if gzipped or name in ("a.npz", "a.parquet"):
        with pytest.raises(InputError, match="unpacks to over 2 times its size; if you trust it"):
            read(path)
    else:
        read(path)


@pytest.mark.parametrize("size", [-1, None, 10**9])
def test_no_more_than_the_limit_is_unpacked(size, tmp_path, monkeypatch):
    path = tmp_path / "a.gz"
    monkeypatch.setattr(unpacking, "ALWAYS_READ", LIMIT)
    path.write_bytes(gzip.compress(bytes(LIMIT)))
    with open_decompressed(path) as file:
        assert file.read(size) == bytes(LIMIT)
    path.write_bytes(gzip.compress(bytes(100 * LIMIT)))
    read = []
    monkeypatch.setattr(
        gzip.GzipFile,
        "read",
        lambda self, n, read_=gzip.GzipFile.read: read.append(n) or read_(self, n),
    )
    with pytest.raises(InputError, match="unpacks"), open_decompressed(path) as file:
        file.read(size)
    assert read == [unpacking.most_unpacked(path) + 1]


def test_other_files_in_an_archive_are_skipped(tmp_path):
    path = tmp_path / "a.npz"
    numpy.savez(path, labels=numpy.arange(10), x=ARRAY)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("README.txt", "about")
    with zipfile.ZipFile(tmp_path / "none.npz", "w") as archive:
        archive.writestr("README.txt", "about")
        archive.writestr("x.npy", "no array")
    array, source = read_named_array(path)
    assert numpy.array_equal(array, ARRAY)
    assert source.startswith("x, of ")
    with pytest.raises(InputError, match=r"README\.txt does not contain an array"):
        read_named_array(path, "README.txt")
    with pytest.raises(InputError, match="does not contain an array"):
        read_named_array(tmp_path / "none.npz")
