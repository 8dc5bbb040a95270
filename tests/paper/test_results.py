"""What the docs say about results is what the results say."""

import json
from pathlib import Path

import pytest
from tools import paper_page
from tools.result_tables import PAPER, SCORERS, WALKERS

from benchmarks import walkers


@pytest.mark.parametrize("name", ["scorers", "walker", *PAPER])
def test_pages_have_tables(name: str):
    assert "<!-- results: " in (paper_page.DOCS / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(SCORERS.glob("*.json")), ids=lambda path: path.stem)
def test_a_result_says_what_made_it(path: Path):
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["name"] == path.stem
    assert result["command"].startswith("hopwalk train ")
    assert len(result["source"]["commit"]) == 40
    assert result["source"]["cpu"]
    assert result["history"]
    assert result["training_seconds"] > 0
    if not result["settings"].get("train_on_valid"):
        assert result["valid"]["tails"]["mrr"] == pytest.approx(max(record["valid_mrr"] for record in result["history"]))
    assert 0 < result["test"]["tails"]["mrr_pessimistic"] <= result["test"]["tails"]["mrr"] <= 1


@pytest.mark.parametrize("path", sorted(WALKERS.glob("*.json")), ids=lambda path: path.stem)
def test_a_result_of_a_walker_says_what_made_it(path: Path):
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["name"] == path.stem
    assert result["command"].startswith("hopwalk train ")
    assert len(result["source"]["commit"]) == 40
    assert result["source"]["cpu"]
    assert result["training_seconds"] > 0
    assert result["history"]
    rankings = {"paths", "scorer", "blend"} if result["scorer"] else {"paths"}
    rankings |= {"probability"} if result["scorer"] and result["settings"]["walker"].get("rerank_weight") else set()
    assert set(result["test"]) == rankings
    for found in result["test"].values():
        assert 0 < found["tails"]["mrr_pessimistic"] <= found["tails"]["mrr"] <= found["tails"]["mrr_optimistic"] <= 1


def test_tables_of_speed_are_those_of_the_results():
    text = walkers.PAGE.read_text(encoding="utf-8")
    assert walkers.with_tables(text) == text, "make them again with: python -m benchmarks.walkers --tables"
    assert text.count("<!-- speed: ") == 2


def test_the_paper_page_and_its_figures_are_those_of_the_ledger():
    text, figures = paper_page.page_and_figures()
    told = "make them again with: python -m tools.paper_page"
    assert paper_page.PAGE.read_text(encoding="utf-8") == text, told
    assert {path.stem: path.read_text(encoding="utf-8") for path in paper_page.FIGURES.glob("*.svg")} == figures, told


@pytest.mark.parametrize("page", paper_page.PAGES, ids=lambda page: page.stem)
def test_numbers_are_those_of_the_ledger(page: Path):
    """Every number near the words MRR or hits@ is in a table of ours or has a mark that says where it comes from."""
    text = page.read_text(encoding="utf-8")
    assert paper_page.filled(text) == text, "make them again with: python -m tools.paper_page"
    assert not paper_page.unmarked(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The MRR is 95.7.", ["95.7"]),
        ("Test hits@1, both\n\n| x | 40.25 |", ["40.25"]),
        ("The MRR is 95.7<!-- paper --> after 12 epochs of 4.5 s with a rate of 0.25.", []),
        ("The MRR was 95.7 in a trial that is not in `results/`.", []),
        ("A sentence of 3.5 words.\n\nMRR is mean reciprocal rank.", []),
        ("```console\nMRR 12.3\n```\n\n<!-- paper: short -->\nMRR 12.3\n<!-- end -->", []),
    ],
)
def test_numbers_without_a_mark_are_found(text: str, found: list[str]):
    assert [told.split()[0] for told in paper_page.unmarked(text)] == found


def test_marked_numbers_are_filled_in():
    name = "umls-complex-modern-0"
    mrr = json.loads((SCORERS / f"{name}.json").read_text(encoding="utf-8"))["test"]["tails"]["mrr"]
    assert paper_page.filled(f"MRR 12.3<!-- {name} test.tails.mrr -->") == f"MRR {100 * mrr:.1f}<!-- {name} test.tails.mrr -->"
    for wrong in ("12.3<!-- no-such-run-0 test.tails.mrr -->", "12.34<!-- paper -->"):
        with pytest.raises(ValueError, match=r"there is no result|the paper has no number"):
            paper_page.filled(wrong)
