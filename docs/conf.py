"""The documentation site. Its sources are the Markdown files of the repository as they lie, so their links work.

``python -m sphinx -W -c docs . site`` builds it; ``generate.py`` writes the pages of the reference first.
"""

import re
import shutil
import sys
from pathlib import Path

from numpy.typing import ArrayLike
from sphinx.util.typing import stringify_annotation

sys.path.insert(0, str(Path(__file__).parent))
import generate

flower = generate.stand_in_for_flower()
flower.__enter__()  # for as long as Sphinx runs

NAVIGATION = {
    "Guide": [
        "docs/glossary",
        "docs/theory",
        "docs/planning",
        "docs/data",
        "docs/recipe",
        "docs/public",
        "docs/attacks",
        "docs/cluster",
        "docs/serving",
        "docs/deployment",
    ],
    "Examples": ["examples/README", "examples/flower/README"],
    "Results": ["docs/results", "benchmarks/README"],
    "Reference": ["docs/reference/cli/index", "docs/reference/api/index"],
    "Project": ["docs/architecture", "CONTRIBUTING", "SECURITY", "CHANGELOG"],
}

project = "flcert"
copyright = "the flcert authors"
root_doc = "README"
include_patterns = [f"{page}.*" for pages in NAVIGATION.values() for page in pages]
include_patterns += ["README.md", "docs/*.md", "docs/reference/**"]
exclude_patterns = [".*", "runs", "results", "site", "src", "tests"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
add_module_names = False
maximum_signature_line_length = 88
napoleon_numpy_docstring = False

smartquotes_action = "D"  # dashes only; quotes stay as they are written

html_theme = "furo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_title = "flcert"
html_copy_source = False
html_show_sphinx = False

_ARRAY = re.compile(r"~numpy\.ndarray\[tuple\[~typing\.Any, \.\.\.\], ~numpy\.dtype\[(.*?)\]\]")
_ARRAY_LIKE = stringify_annotation(ArrayLike, "smart", short_literals=False)


def write_reference(_app):
    """Write the generated pages before Sphinx looks for its sources."""
    generate.write(Path(__file__).parent / "reference")


def add_navigation(_app, page, source):
    """Give the start page the navigation that README.md itself has no use for."""
    if page == root_doc:
        for caption, pages in NAVIGATION.items():
            source[0] += "\n".join(["\n```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])


def add_index(app, failure):
    """Let the address of the site itself show the start page."""
    if not failure and app.builder.name == "html":
        shutil.copy(app.outdir / f"{root_doc}.html", app.outdir / "index.html")


def mark_symbols(_app, _what, _name, _object, _options, lines):
    """Set "num_clients: n." with n as a symbol; by itself it would number a list."""
    lines[:] = [re.sub(r"^( +\w+: )(\w)\.$", r"\1*\2*.", line) for line in lines]


def shorten_types(_app, _what, _name, _object, _options, arguments, returns):
    """Write NumPy's types as the sources do, and leave out defaults that cannot be written down."""
    return tuple(text and _shortened(text) for text in (arguments, returns))


def _shortened(text):
    text = _ARRAY.sub(r"NDArray[\1]", text.replace(_ARRAY_LIKE, "ArrayLike"))
    return re.sub(r" = <[^<>]*>", " = ...", text)


def setup(app):
    """Called by Sphinx."""
    app.connect("builder-inited", write_reference)
    app.connect("source-read", add_navigation)
    app.connect("autodoc-process-docstring", mark_symbols, priority=100)  # before napoleon
    app.connect("autodoc-process-signature", shorten_types)
    app.connect("build-finished", add_index)
