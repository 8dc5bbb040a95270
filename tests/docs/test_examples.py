"""Commands of README and docs print what the pages show, and Python examples run."""

import doctest
import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numba
import pytest

import hopwalk
import hopwalk.propagation.graph  # names numba's cache
from tests.docs.pages import BLOCK, CONSOLES, PAGES, ROOT, blocks, text_of

KNOWN_BLOCKS = {*CONSOLES, "bash", "python", "python no-run", "text", "json", "toml", "{toctree}", "{eval-rst}"}


COPIED = {"tutorial.md": [ROOT / "tests" / "support" / "drugs.csv"]}  # files that the reader copies


def commands(page: Path) -> Iterator[tuple[str, str, bool]]:
    """The page's commands, each with the output shown below it, and whether that is meant exactly."""
    for info, body in blocks(page, "console", "console about", "bash"):
        if info == "bash":
            yield body, "", True
            continue
        assert body.startswith("$ "), f"{page.name}: a console block begins with a command:\n{body}"
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown, info == "console"


def run_command(command: str, folder: Path) -> str:
    """The output of a command, standard output and standard error together."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder.parent),
        "HOPWALK_CACHE": str(folder.parent / "cache"),
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "NUMBA_CACHE_DIR": numba.config.CACHE_DIR,  # of this process: kernels are not compiled again for every page
        "PYTHONUNBUFFERED": "1",  # keeps both streams in order, as a terminal does
    }
    ran = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    return ran.stdout


def plain(text: str) -> str:
    """The text without blanks at the ends of lines and blank lines at either end."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n"


def about(text: str) -> str:
    """The text with # for every number, and one blank for many."""
    return re.sub(r"[ ─]+", " ", re.sub(r"\d[\d.,]*", "#", plain(text)))


def is_as_shown(shown: str, printed: str, *, is_exact: bool = True) -> bool:
    if not is_exact:
        shown, printed = about(shown), about(printed)
    lines = plain(shown).splitlines()
    pattern = "".join(r"(?:.*\n)*?" if line == "…" else re.escape(line) + r"\n" for line in lines)
    return re.fullmatch(pattern, plain(printed)) is not None


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        ("a\nb\n", "\na  \nb\n\n", True),
        ("a\n", "a\nb\n", False),
        ("", "a\n", False),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\nd\n", "a\nd\n", True),
        ("…\nb\n", "a\nc\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_output_is_compared_line_by_line(shown: str, printed: str, fits: bool):
    assert is_as_shown(shown, printed) == fits


def test_output_may_be_compared_without_numbers():
    assert is_as_shown("a   1.5 %  b\n", "a  12.25 %  b\n", is_exact=False)
    assert not is_as_shown("a 1.5 % b\n", "a 1.5 % c\n", is_exact=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_do_what_the_page_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "page"
    folder.mkdir()
    for file in COPIED.get(page.name, ()):
        shutil.copy(file, folder)
    for command, shown, is_exact in commands(page):
        printed = run_command(command, folder)
        assert is_as_shown(shown, printed, is_exact=is_exact), (
            f"{page.name}: $ {command}\n--- shown\n{plain(shown)}--- printed\n{plain(printed)}"
        )
    monkeypatch.chdir(folder)
    source = "\n".join(body for _, body in blocks(page, "python") if ">>>" in body)
    examples = doctest.DocTestParser().get_doctest(source, {}, page.name, str(page), 0)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples, out=report.append)
    assert not result.failed, "".join(report)


def test_pages_have_examples():
    assert sum(1 for page in PAGES for _ in commands(page)) > 20
    assert any(">>>" in body for page in PAGES for _, body in blocks(page, "python"))


def test_blocks_have_known_kinds():
    """A mistyped kind would leave a block untested."""
    kinds = {block["info"].strip() for page in PAGES for block in BLOCK.finditer(text_of(page))}
    assert kinds <= KNOWN_BLOCKS


def test_examples_in_docstrings():
    names = ["hopwalk", *(module.name for module in pkgutil.walk_packages(hopwalk.__path__, "hopwalk."))]
    results = {name: doctest.testmod(importlib.import_module(name)) for name in names}
    assert not [name for name, result in results.items() if result.failed]
    assert sum(result.attempted for result in results.values()) > 10
