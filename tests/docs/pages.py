"""README, CONTRIBUTING and docs/*.md as the tests read them.

How pages are written:

- A `console` block is run: each line that begins with `$ ` is given to bash in a folder of the page's own, and the lines below it
  must be what it prints. A line `…` stands for any number of lines. In a `console about` block numbers may differ, and so may the
  blanks around them: trained models differ a little between machines. `console no-run` and `python no-run` blocks take too long
  to run; their commands are parsed.
- A `bash` block is run as it stands and must print nothing.
- The `>>>` examples of `python` blocks are run in the same folder, after the commands.
- Inline code that is a command, a setting, a public name or a file must exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
BLOCK = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
CONSOLES = ("console", "console about", "console no-run")


def text_of(page: Path) -> str:
    """The text of a page."""
    return page.read_text(encoding="utf-8")


def blocks(page: Path, *infos: str) -> Iterator[tuple[str, str]]:
    """Kind and content of the page's fenced blocks of these kinds."""
    for block in BLOCK.finditer(text_of(page)):
        if block["info"].strip() in infos:
            yield block["info"].strip(), block["body"]


def inline_code(page: Path) -> list[str]:
    """The inline code of the page, outside of its blocks."""
    return INLINE.findall(BLOCK.sub("", text_of(page)))


def shown_commands(page: Path) -> list[str]:
    """The command lines of the page's console blocks, also of those that are not run."""
    bodies = [body for _, body in blocks(page, *CONSOLES)]
    return [line.removeprefix("$ ") for body in bodies for line in body.splitlines() if line.startswith("$ ")]


def rows_of(page: Path) -> dict[str, list[str]]:
    """The cells of the page's table rows that begin with inline code, by that code."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text_of(page).splitlines() if line.startswith("| `")
    ]
    return {cells[0].strip("`"): cells[1:] for cells in rows}
