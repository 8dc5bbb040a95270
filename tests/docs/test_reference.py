"""Tables of the docs are those of the code: findings, settings, data sets; links and contents are complete."""

import ast
import re
from pathlib import Path

import pytest
from tools.settings_page import page as settings_page

import hopwalk
from hopwalk.data import catalog
from hopwalk.data.statistics import statistics
from tests.docs.pages import BLOCK, DOCS, PAGES, ROOT, blocks, rows_of, text_of

MIRRORED = ("fb15k-237", "wn18rr", "nell-995")


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


def test_diagnostics_page_has_every_finding_with_its_level():
    listed = re.findall(r"^\| `([a-z-]+)` \| (error|warning|note) \|", text_of(DOCS / "diagnostics.md"), flags=re.MULTILINE)
    assert len(listed) == len({*listed})
    assert {*listed} == findings_in_source()


def test_settings_page_is_made_from_the_declarations():
    assert text_of(DOCS / "settings.md") == settings_page(), "make it again with: python -m tools.settings_page"


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
        for part in (entry.source, entry.citation, entry.licence):
            assert part in text, f"{entry.name}: {part}"


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
