"""The documentation is true: its commands print what it shows, its examples run, its tables and links hold.

How pages are written:

- A `console` block is run: each line that begins with `$ ` is given to bash in a folder of the page's own, and the lines below it
  must be what it prints. A line `…` stands for any number of lines. In a `console about` block numbers may be others, and so may
  the blanks around them: what is learnt differs a little between machines. `console no-run` and `python no-run` are for what
  takes long.
- A `bash` block is run as it stands and must print nothing.
- The `>>>` examples of `python` blocks are run in the same folder, after the commands.
"""

import ast
import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hopwalk
from hopwalk.config.settings import Settings, dotted_names, preset_text
from hopwalk.data import catalog
from hopwalk.data.statistics import statistics

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
BLOCK = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
MIRRORED = ("fb15k-237", "wn18rr", "nell-995")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, *infos: str) -> Iterator[tuple[str, str]]:
    """Kind and content of the page's fenced blocks of these kinds."""
    for block in BLOCK.finditer(text_of(page)):
        if block["info"].strip() in infos:
            yield block["info"].strip(), block["body"]


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
    """What a command prints, standard output and standard error together."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder.parent),
        "HOPWALK_CACHE": str(folder.parent / "cache"),
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "100",
        "NO_COLOR": "1",
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


def test_only_known_kinds_of_blocks():
    """A mistyped kind would leave a block untested."""
    known = {
        "console",
        "console about",
        "console no-run",
        "bash",
        "python",
        "python no-run",
        "text",
        "json",
        "toml",
        "{toctree}",
        "{eval-rst}",
    }
    kinds = {block["info"].strip() for page in PAGES for block in BLOCK.finditer(text_of(page))}
    assert kinds <= known


def test_examples_in_docstrings():
    names = ["hopwalk", *(module.name for module in pkgutil.walk_packages(hopwalk.__path__, "hopwalk."))]
    results = {name: doctest.testmod(importlib.import_module(name)) for name in names}
    assert not [name for name, result in results.items() if result.failed]
    assert sum(result.attempted for result in results.values()) > 10


# The doctor's page


def findings_in_source() -> set[tuple[str, str]]:
    """Code and level of every `Finding(level, code, …)`, and of every dictionary that stands for one in JSON."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Finding":
                level, code = node.args[:2]
                found |= {(written, ast.literal_eval(level)) for written in codes_of(code)}
            if isinstance(node, ast.Dict):
                pairs = {ast.unparse(key): value for key, value in zip(node.keys, node.values, strict=True) if key}
                if {"'code'", "'level'"} <= {*pairs}:
                    found.add((ast.literal_eval(pairs["'code'"]), ast.literal_eval(pairs["'level'"])))
    return found


def codes_of(code: ast.expr) -> list[str]:
    composed = {"f'{kind}-relations'": ["inverse-relations", "duplicate-relations"]}
    return composed.get(ast.unparse(code)) or [ast.literal_eval(code)]


def test_doctor_page_has_every_finding_with_its_level():
    listed = re.findall(r"^\| `([a-z-]+)` \| (error|warning|note) \|", text_of(DOCS / "doctor.md"), flags=re.MULTILINE)
    assert len(listed) == len({*listed})
    assert {*listed} == findings_in_source()


# Settings


def flat(values: dict[str, Any]) -> dict[str, Any]:
    return {f"{group}.{name}": value for group, inner in values.items() for name, value in inner.items()}


def test_default_preset_lists_every_setting_with_its_default():
    listed = flat(tomllib.loads(preset_text("default")))
    assert {*listed} == {*dotted_names()}
    assert listed == flat(Settings().model_dump())


def test_settings_page_lists_every_setting_with_its_default():
    rows = re.findall(r"^\| `([a-z0-9_.]+)` \| `([^`]+)` \|", text_of(DOCS / "settings.md"), flags=re.MULTILINE)
    assert {name: tomllib.loads(f"value = {default}")["value"] for name, default in rows} == flat(Settings().model_dump())


# Tables of data sets


def rows_of(page: Path) -> dict[str, list[str]]:
    """The cells of the page's table of data sets, by name."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text_of(page).splitlines() if line.startswith("| `")
    ]
    return {cells[0].strip("`"): cells[1:] for cells in rows if cells[0].strip("`") in catalog.entries()}


def test_readme_lists_the_catalog():
    counts = {name: [f"{n:,}" for n in (e.entities, e.relations, e.facts)] for name, e in catalog.entries().items()}
    assert {name: cells[:3] for name, cells in rows_of(ROOT / "README.md").items()} == counts


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.mirror] if name in MIRRORED else []) for name in catalog.entries()]
)
def test_data_sets_page_has_the_counts(name: str):
    numbers = statistics(hopwalk.load_dataset(name))
    counts = (
        numbers.num_entities,
        numbers.num_entities_in_graph,
        numbers.num_relations,
        numbers.num_facts,
        numbers.num_facts_in_all,
        numbers.num_train,
        numbers.num_valid,
        numbers.num_test,
    )
    degrees = [f"{numbers.out_degree.mean:.2f}", f"{numbers.out_degree.median:.0f}"]
    assert rows_of(DOCS / "data-sets.md")[name] == [*(f"{count:,}" for count in counts), *degrees]


def test_data_sets_page_has_source_citation_and_licence():
    text = " ".join(text_of(DOCS / "data-sets.md").split())
    for entry in catalog.entries().values():
        for said in (entry.source, entry.citation, entry.licence):
            assert said in text, f"{entry.name}: {said}"


# Links and names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path):
    links = re.findall(r"\]\(([^)\s#]+)[^)]*\)", BLOCK.sub("", text_of(page)))
    local = [link for link in links if "://" not in link]
    assert not [link for link in local if not (page.parent / link).exists()]


def test_every_page_is_in_the_table_of_contents():
    (body,) = [body for _, body in blocks(DOCS / "index.md", "{toctree}")]
    listed = [line for line in body.splitlines() if line and not line.startswith(":")]
    assert sorted([*listed, "index"]) == sorted(page.stem for page in DOCS.glob("*.md"))


def test_api_page_has_every_public_name():
    documented = re.findall(r"^\.\. auto\w+:: (\S+)$", text_of(DOCS / "api.md"), flags=re.MULTILINE)
    assert {f"hopwalk.{name}" for name in hopwalk.__all__} <= {*documented}
