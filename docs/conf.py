"""How Sphinx builds the site: `make docs`, strictly. docs/decisions/056-the-site.md says why so."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / "site"), str(Path(__file__).parents[1])]

import ramet  # noqa: E402 - of this folder's repository

project, author, copyright = "ramet", "The ramet authors", "the ramet authors, Apache-2.0"
version = release = ramet.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
extensions += ["equations", "reference", "figures", "checks"]
exclude_patterns = ["site", "conf.py"]
suppress_warnings = ["misc.highlighting_failure"]  # code that shows what a program refuses need not be valid

# Pages are Markdown as a repository's pages are: headings are anchors, a link to a file outside is a download.
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_links_external_new_tab = False
myst_dmath_double_inline = False

# The gallery: notebooks as text, run anew by every build. No output is kept in the repository.
nb_execution_mode = "force"
nb_execution_timeout = 600  # of a cell: far more than any needs, for a busy machine
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_inherit_docstrings = False
napoleon_google_docstring, napoleon_numpy_docstring = True, False

html_theme, html_title = "furo", f"ramet {release}"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sphinx = False
