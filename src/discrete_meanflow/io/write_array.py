"""Write arrays."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy

from discrete_meanflow.errors import InputError
from discrete_meanflow.files import is_stream, open_output, output_path
from discrete_meanflow.io.array_codec import ArrayCodec
from discrete_meanflow.io.write import Write, compressed, text_writer

ARRAY_SUFFIXES = (".npy", ".npy.gz", ".npz")


@contextmanager
def array_writer(path: Path | None, codec: ArrayCodec, count: int) -> Iterator[Write]:
    """A function that writes ``count`` arrays in all.

    Without a path it prints them; a device or a pipe without a suffix gets the same.
    """
    if path is None or (not path.name.endswith(ARRAY_SUFFIXES) and is_stream(path)):
        # One record per line, in the notation of an infilling pattern.
        with text_writer(path) as text:
            yield lambda records: text.writelines(
                ",".join(map(str, record.ravel())) + "\n" for record in records
            )
        return
    dtype = numpy.min_scalar_type(codec.symbols - 1)
    header = {"descr": dtype.str, "fortran_order": False, "shape": (count, *codec.shape)}
    with _open_array_file(path) as out:
        numpy.lib.format.write_array_header_1_0(out, header)
        yield lambda records: out.write(records.astype(dtype).tobytes())


@contextmanager
def _open_array_file(path: Path) -> Iterator[IO[bytes]]:
    """Open ``path`` for one array in the format that its suffix selects."""
    if path.name.endswith(".npz"):
        entry = zipfile.ZipInfo("samples.npy")
        entry.compress_type = zipfile.ZIP_DEFLATED
        with (
            output_path(path) as partial,
            zipfile.ZipFile(partial, "w") as archive,
            archive.open(entry, "w", force_zip64=True) as out,
        ):
            yield out
    elif path.name.endswith(ARRAY_SUFFIXES):
        with open_output(path) as file, compressed(file, path.name.endswith(".gz")) as out:
            yield out
    else:
        raise InputError(f"{path.name}: arrays are written to FILE.npy, FILE.npy.gz or FILE.npz")
