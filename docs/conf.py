"""Configuration of the documentation: Markdown with MyST, docstrings with autodoc, no files from other hosts."""

import re
from typing import Any

import hopwalk

project = "hopwalk"
author = "The hopwalk authors"
copyright = f"2026, {author}"
version = release = hopwalk.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]

myst_heading_anchors = 3

default_role = "code"  # docstrings write `name`, as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"

html_theme = "furo"
html_title = f"hopwalk {release}"
html_copy_source = False
html_show_sphinx = False


def shorten_arrays(app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None) -> Any:
    """Shorten arrays in signatures to `NDArray[int32]`."""
    long = re.compile(r"~?numpy\.ndarray\[tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[~?numpy\.(\w+)\]\]")
    return tuple(text and long.sub(r"NDArray[\1]", text) for text in (signature, returns))


def setup(app: Any) -> None:
    app.connect("autodoc-process-signature", shorten_arrays)
