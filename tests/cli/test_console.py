"""Messages at the command line: options are added to those of the library, and labels cannot steer the terminal."""

import ast
import re
from pathlib import Path

import pytest

import hopwalk
from hopwalk.cli.console import printable, with_options

PACKAGE = Path(hopwalk.__file__).parent


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Resume it, or choose another folder.", "Resume it (--resume), or choose another folder (--out)."),
        ("Resume its training first.", "Resume its training (--resume) first."),
        ("Choose another file for the study.", "Choose another file for the study (--study)."),
        ("See the plan for their names.", "See the plan (--plan) for their names."),
        ("Name a trained walker to start from.", "Name a trained walker to start from (--start)."),
        ("Set read.columns.", "Set read.columns (--columns)."),
        ("Try another relation.", "Try another relation."),
    ],
)
def test_options_are_added(message: str, shown: str):
    assert with_options(message) == shown


def test_control_characters_are_made_visible():
    assert printable("a\x1b[31mb\nc\x00") == "a\N{REPLACEMENT CHARACTER}[31mb\nc\N{REPLACEMENT CHARACTER}"


def texts_of_errors(module: Path) -> list[str]:
    """The string constants in `raise` statements, and in assignments to a remedy."""
    found = []
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        is_remedy = isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "remedy" for target in node.targets)
        if isinstance(node, ast.Raise) or is_remedy:
            found += [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return found


def test_the_library_names_no_options():
    modules = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "cli"]
    texts = {path: texts_of_errors(path) for path in modules}
    assert sum(map(len, texts.values())) > 200  # so that a wrong search does not pass
    named = [(path.name, text) for path, found in texts.items() for text in found if re.search(r"(^|[\s`(])--[a-z]", text)]
    assert not named
