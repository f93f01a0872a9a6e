"""Formulas as MathML, which browsers show without a script, a font or a network."""

from typing import Any

from docutils import nodes
from latex2mathml import converter
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator


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


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.config.html_math_renderer = "mathml"
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
