"""Configuration of the documentation site: ``make docs`` builds it without warnings."""

import sys
from pathlib import Path

import discrete_meanflow

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "Discrete MeanFlow"
author = "The Discrete MeanFlow authors"
version = release = discrete_meanflow.__version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "myst_nb",
    "sphinx_copybutton",
    "mathml",
    "reference",
]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = project
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # outputs are kept in the notebooks; a test executes them

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
autodoc_inherit_docstrings = False
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
add_module_names = False
