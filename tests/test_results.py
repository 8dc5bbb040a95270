"""What the docs say about results is what the results say."""

import json
from pathlib import Path

import pytest
from benchmarks import walker_results
from benchmarks.scorer_results import PAGES, PAPER, RESULTS, with_tables


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tables_are_those_of_the_results(page: Path):
    text = page.read_text(encoding="utf-8")
    assert with_tables(text) == text, "make them again with: python -m benchmarks.scorer_results"


@pytest.mark.parametrize("name", ["README", "scorers", *PAPER])
def test_pages_have_tables(name: str):
    assert "<!-- results: " in next(page for page in PAGES if page.stem == name).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_a_result_says_what_made_it(path: Path):
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["name"] == path.stem
    assert result["command"].startswith("hopwalk train ")
    assert len(result["source"]["commit"]) == 40
    assert result["source"]["cpu"]
    assert result["history"]
    assert result["training_seconds"] > 0
    if not result["settings"].get("learn_valid"):
        assert result["valid"]["tails"]["mrr"] == pytest.approx(max(record["valid_mrr"] for record in result["history"]))
    assert 0 < result["test"]["tails"]["mrr_pessimistic"] <= result["test"]["tails"]["mrr"] <= 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tables_of_walkers_are_those_of_the_results(page: Path):
    text = page.read_text(encoding="utf-8")
    assert walker_results.with_tables(text) == text, "make them again with: python -m benchmarks.walker_results"


@pytest.mark.parametrize("path", sorted(walker_results.RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_a_result_of_a_walker_says_what_made_it(path: Path):
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["name"] == path.stem
    assert result["command"].startswith("hopwalk train ")
    assert len(result["source"]["commit"]) == 40
    assert result["source"]["cpu"]
    assert result["training_seconds"] > 0
    assert result["history"]
    rankings = {"paths", "scorer", "blend"} if result["scorer"] else {"paths"}
    assert set(result["test"]) == rankings
    for found in result["test"].values():
        assert 0 < found["tails"]["mrr_pessimistic"] <= found["tails"]["mrr"] <= found["tails"]["mrr_optimistic"] <= 1
