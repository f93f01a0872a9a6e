"""Formulas as MathML, which browsers show without a script or a network.

Without a font for mathematics, browsers do not lower subscripts. Not every machine has one, so the
site contains STIX Two Math, reduced to the characters of formulas. The font stands in the style
sheet itself, because Firefox loads no font from another folder of the file system.
"""

import base64
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml import converter
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

FONT = Path(__file__).parent / "stix-two-math" / "subset.woff"
SHEET = "math.css"


def convert(latex: str, display: str = "inline") -> str:
    """MathML with the space of TeX between a logarithm and its argument."""
    text = converter.convert(latex, display=display)
    return text.replace("<mi>log</mi><m", '<mi>log</mi><mspace width="0.17em"></mspace><m')


def inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(f'<span class="math">{convert(node.astext())}</span>')
    raise nodes.SkipNode


def block(writer: HTML5Translator, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="math"))
    if node["number"]:
        number = get_node_equation_number(writer, node)
        writer.body.append(f'<span class="eqno">({number})</span>')
    writer.body.append(convert(node.astext(), display="block") + "</div>\n")
    raise nodes.SkipNode


def write_font(app: Sphinx) -> None:
    """The style sheet that gives formulas their font."""
    data = base64.b64encode(FONT.read_bytes()).decode()
    source = f"url(data:font/woff;base64,{data})"
    path = Path(app.outdir) / "_static" / SHEET
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'@font-face {{ font-family: "Formulas"; src: {source} format("woff"); }}\n'
        'math { font-family: "Formulas", math; }\n'
    )


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write_font)
    app.add_css_file(SHEET)
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.config.html_math_renderer = "mathml"
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
