"""Pictures inside a page, as data URIs."""

import base64
import struct
import zlib
from pathlib import Path

from discrete_meanflow.files import read_regular_file


def figure_uri(path: Path) -> str:
    """A PNG file."""
    return png_uri(read_regular_file(path))


def png_uri(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def svg_uri(drawing: str) -> str:
    """An SVG drawing as an image, in which scripts do not run."""
    return f"data:image/svg+xml;base64,{base64.b64encode(drawing.encode()).decode()}"


def grey_png(levels: bytes, width: int, height: int) -> bytes:
    """A PNG of ``width * height`` grey levels, row by row."""
    rows = b"".join(b"\0" + levels[i * width : (i + 1) * width] for i in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)  # 8 bits, grey
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
