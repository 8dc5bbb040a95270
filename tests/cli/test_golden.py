"""Output in the terminal, compared with the files in `golden/`.

`HOPWALK_RENEW_GOLDEN=1 python -m pytest tests/cli/test_golden.py` writes them again; look at the difference before you commit it.
Numbers that depend on training are shown as #: their last digits differ between machines.
"""

import os
import re
import shlex
from pathlib import Path

import pytest

from tests.support.commands import command
from tests.support.villages import VILLAGE

GOLDEN = Path(__file__).parent / "golden"
HEAD, RELATION, TAIL = VILLAGE.labels_of(VILLAGE.test)[0]
KNOWN = next(fact for fact in VILLAGE.labels_of(VILLAGE.train) if fact[1] == "uncle")

CASES: dict[str, tuple[str, ...]] = {
    "ask": ("ask", "UNCLES", HEAD, RELATION, "-k", "2"),
    "ask-inverse": ("ask", "UNCLES", HEAD, RELATION, "--inverse", "-k", "1"),
    "ask-json": ("ask", "UNCLES", HEAD, RELATION, "-k", "1", "--json"),
    "ask-many": ("ask", "UNCLES", "--from", "queries.tsv", "-k", "1"),
    "ask-many-json": ("ask", "UNCLES", "--from", "queries.tsv", "-k", "1", "--json"),
    "ask-many-mistake": ("ask", "UNCLES", "--from", "mistake.tsv"),
    "ask-facts": ("ask", "UNCLES", "child 0", "uncle", "--facts", "more.csv", "-k", "2"),
    "ask-facts-mistake": ("ask", "UNCLES", "child 0", "uncle", "--facts", "wrong.csv"),
    "ask-unknown-entity": ("ask", "UNCLES", "chld 0", RELATION),
    "ask-unknown-relation": ("ask", "UNCLES", HEAD, "aunt"),
    "ask-two-unknown-names": ("ask", "UNCLES", "chld 0", "aunt"),
    "ask-empty": ("ask", "UNCLES", "", RELATION),
    "ask-nothing": ("ask", "UNCLES"),
    "ask-no-run": ("ask", "nowhere", HEAD, RELATION),
    "explain": ("explain", "UNCLES", HEAD, RELATION, TAIL, "--paths", "1"),
    "explain-known": ("explain", "UNCLES", *KNOWN, "--paths", "1"),
    "rules": ("rules", "UNCLES", "uncle", "-k", "1"),
    "rules-unknown": ("rules", "UNCLES", "unclle"),
    "complete": ("complete", "UNCLES", "--relation", "uncle", "--above", "0.99", "--out", "new.tsv"),
    "propose": ("propose", "UNCLES", HEAD, "--relation", "uncle", "--above", "0", "-k", "1"),
    "propose-nothing": ("propose", "UNCLES"),
    "paths": ("paths", "UNCLES", "child 0", "MAN_1", "-k", "2"),
    "paths-json": ("paths", "UNCLES", "child 0", "mother 0", "--hops", "1", "--json"),
    "paths-mistake": ("paths", "UNCLES", "child 0", "mann 1"),
    "complete-mistake": ("complete", "UNCLES", "--out", "new.doc"),
}
FILES = {
    "queries.tsv": "child 0\tuncle\nChild_10\tUncle⁻¹\n",
    "mistake.tsv": "child 0\tuncle\nchild 0\tuncles and aunts\n",
    "more.csv": "child 0,uncle,man 12\n",
    "wrong.csv": "child 0,mother,mother 5\nchild 0,mother,mother 99\n",
}


def masked(text: str) -> str:
    """The text with # for numbers that differ between machines."""
    text = re.sub(r"-?\d+\.\d+(e-?\d+)?", "#", text)
    text = re.sub(r"\d+ new facts?", "# new facts", text)
    return re.sub(r"[\d,]+ queries per second", "# queries per second", text)


def shown(args: tuple[str, ...], runs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> str:
    """The command and its output, errors last."""
    printed = command(capsys, *(str(runs.get(arg, arg)) for arg in args), code=None)
    errors = f"--- error\n{printed.err}" if "error:" in printed.err else ""
    return f"$ hopwalk {shlex.join(args)}\n{masked(printed.out + errors)}"


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("name", CASES)
def test_output_is_as_in_its_file(name: str, uncles_run: Path, in_folder: Path, capsys: pytest.CaptureFixture[str]):
    for file, content in FILES.items():
        (in_folder / file).write_text(content, encoding="utf-8")
    found, golden = shown(CASES[name], {"UNCLES": uncles_run}, capsys), GOLDEN / f"{name}.txt"
    if os.environ.get("HOPWALK_RENEW_GOLDEN"):
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")


def test_every_file_has_a_case():
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {*CASES}
