"""One self-contained HTML page with the tables and figures of runs."""

import base64
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from discrete_meanflow.files import write_atomically
from dmf_reproduction.figures.draw import figures, png
from dmf_reproduction.report.grids import grid
from dmf_reproduction.report.table import HEAD, origin, rows

Json = dict[str, Any]
YES, NO = "<td class=yes>yes</td>", "<td class=no>no</td>"

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #1d2129; }
h1 { font-size: 1.7rem } h2 { margin-top: 2.5rem; font-size: 1.25rem }
table { border-collapse: collapse; width: 100%; font-size: .92rem }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #e3e6ea }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.yes { color: #2e7d4f } .no { color: #b3402a; font-weight: 600 }
img { max-width: 100%; margin: .8rem 0 } code { background: #f3f4f6; padding: .1rem .3rem }
.made { color: #667; font-size: .85rem }
"""


def page(title: str, runs: Sequence[Json]) -> str:
    sections = "\n".join(_section(results) for results in runs)
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title>"
        f"<meta name=viewport content='width=device-width'><style>{STYLE}</style>"
        f"<h1>{html.escape(title)}</h1>{sections}</html>"
    )


def write_page(path: Path, title: str, runs: Sequence[Json]) -> Path:
    write_atomically(path, page(title, runs).encode())
    return path


def _section(results: Json) -> str:
    claims = "".join(
        f"<tr><td>{html.escape(row.text)}</td>"
        f"<td class=number>{html.escape(row.paper)}</td>"
        f"<td class=number>{html.escape(row.ours)}</td>{YES if row.holds else NO}</tr>"
        for row in rows(results)
    )
    pictures = "".join(
        f"<figure><img alt='{name}' src='{_embedded(png(figure))}'></figure>"
        for name, figure in figures(results).items()
    )
    return (
        f"<h2>{html.escape(results['title'])}</h2><p class=made>{html.escape(results['where'])}</p>"
        f"{_grid(results)}<table><tr>{_head(HEAD)}</tr>{claims}</table>{pictures}"
        f"<p class=made><code>{html.escape(results['command'])}</code><br>"
        f"{html.escape(origin(results))}</p>"
    )


def _grid(results: Json) -> str:
    table = grid(results)
    if not table:
        return ""
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in table[1:]
    )
    return f"<table><tr>{_head(table[0])}</tr>{body}</table><p></p>"


def _head(names: Sequence[str]) -> str:
    return "".join(f"<th>{html.escape(name)}" for name in names)


def _embedded(picture: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"
