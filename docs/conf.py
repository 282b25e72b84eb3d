"""The reference site: `python -m sphinx -nW --keep-going docs build/docs`.

The package is imported, not only parsed: many public functions are made by tables and
wrapped, so that only Python knows their signatures.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import aotc

project = "aotc"
author = "the authors of aotc"
release = version = aotc.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "public_api",
]
exclude_patterns = ["_build"]

# Markdown pages: headings can be linked to, as on GitHub.
myst_heading_anchors = 3

# Every link has to lead somewhere, but for types in signatures that are of other
# packages (the build needs no network) or of files that are not public.
nitpick_ignore_regex = [
    ("py:class", r"(?!aotc\.).*"),
    ("py:class", r"aotc\.\w+\.[a-z]\w*\..*"),
    ("py:class", r"aotc\.debug\.Tree"),  # a type variable
]
# `mlir` and tables in docstrings have no lexer.
suppress_warnings = ["misc.highlighting_failure"]
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autodoc_type_aliases = {
    name: name
    for name in ("ArrayLike", "Axes", "ComplexLike", "DTypeLike", "Rate", "ShapeLike")
} | {"Window": "Window"}
python_maximum_signature_line_length = 88

# Dashes of options stay dashes; blocks without a language are commands and output.
smartquotes = False
highlight_language = "text"

html_theme = "furo"
html_title = f"aotc {version}"
html_static_path = ["_static"]
html_css_files = ["aotc.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
