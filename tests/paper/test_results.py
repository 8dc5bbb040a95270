"""The results of the project: every file of `results/` opens with the names of today, and README and docs show its numbers."""

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tools import paper_page
from tools.result_tables import PAPER, RESULTS

from benchmarks import products, walkers
from hopwalk.config.settings import Settings, changed, dotted_names
from hopwalk.data.statistics import Statistics
from hopwalk.paper.ledger import DATA, FOLDERS, UNFINISHED, Ledger, Result
from hopwalk.paper.plan import VARIANTS, Scope
from hopwalk.paper.run_spec import RunSpec

LEDGER = Ledger(RESULTS)
BY_NAME = {(result.kind, result.name): result for result in LEDGER.results}
FILES = {
    f"{folder}/{path.stem}": path
    for folder in (*FOLDERS.values(), UNFINISHED)
    for path in sorted((RESULTS / folder).glob("*.json"))
}
# The names of the first version, written out again here: the tables of `hopwalk.config.migrations` are tested against these.
OLD_SETTINGS = {
    "walker.learn_valid": "walker.train_on_valid",
    "walker.dev_questions": "walker.dev_queries",
    "scorer.learn_valid": "scorer.train_on_valid",
    "scorer.candidates": "scorer.num_sampled_tails",
    "scorer.picture_height": "scorer.embedding_height",
}
REMOVED = {"graph.damping": 0.85, "walker.action_dropout_decay": 1.0, "walker.hides_shortcuts": False}
GONE = {"walker.guidance": 0.0, "walker.reward_weight": 0.0, "walker.rerank_weight": 0.0, "walker.blend_weight": None}
OLD_KEYS = {"num_questions", "num_relations_asked", "has_learnt_dev", "paths", "probability"} | {
    name.partition(".")[2] for name in OLD_SETTINGS | REMOVED | {name: None for name in GONE if name != "walker.blend_weight"}
}


def raw(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def result_of(path: Path) -> Result:
    """The result of a file, as the ledger reads it."""
    kinds = {folder: kind for kind, folder in FOLDERS.items()}
    return BY_NAME[kinds.get(path.parent.name) or raw(path)["kind"], path.stem]


def all_keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {*value} | {name for inner in value.values() for name in all_keys(inner)}
    return {name for inner in value for name in all_keys(inner)} if isinstance(value, list) else set()


def leaves(value: Any) -> Iterator[Any]:
    """The values of nested JSON without the names of keys, in order."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from leaves(inner)
    else:
        yield value


def check_settings(old: dict[str, Any], new: dict[str, Any], group: str) -> None:
    """The settings of a group have today's names, and their values are those of the file."""
    expected: dict[str, Any] = {}
    for name, value in old.items():
        dotted = f"{group}.{name}"
        if dotted in REMOVED:
            assert value == REMOVED[dotted]  # so that nothing is lost
        elif dotted in GONE:
            assert GONE[dotted] is None or value == GONE[dotted]  # no scorer took part in the walk or in the ranking
        else:
            expected[OLD_SETTINGS.get(dotted, dotted)] = value
    found = {f"{group}.{name}": value for name, value in new.items()}
    assert found == expected
    assert {*found} <= {*dotted_names()}
    changed(Settings(), found)  # every value is still allowed


def check_scorer(old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
    """The description of a scorer, or of an ensemble with its members."""
    if old is None or new is None:
        assert old is new
        return
    if "settings" in old:
        check_settings(old["settings"], new["settings"], "scorer")
    for old_member, new_member in zip(old.get("members", []), new.get("members", []), strict=True):
        check_scorer(old_member, new_member)


def check_rankings(old: dict[str, Any], new: dict[str, Any]) -> None:
    """The rankings of a walker have today's names, and their values are those of the file."""
    if "paths" not in old:  # written after the names had changed
        assert new == old
        return
    expected = {"policy": old.get("probability", old["paths"])}
    expected |= {name: value for name, value in old.items() if name not in ("paths", "probability")}
    assert new.keys() == expected.keys()
    for name, values in expected.items():
        assert [*leaves(new[name])] == [*leaves(values)]


def test_the_ledger_has_every_file():
    assert len(FILES) == len(LEDGER.results) >= 120
    assert {result.kind for result in LEDGER.results} == {*FOLDERS}
    assert {*LEDGER.data} == {path.stem for path in (RESULTS / DATA).glob("*.json")} == {*Scope().data_sets}


@pytest.mark.parametrize("file", FILES)
def test_a_file_opens_with_the_names_of_today_and_unchanged_values(file: str):
    result, old = result_of(FILES[file]), raw(FILES[file])
    new = dict(result.content)
    assert not all_keys(new) & OLD_KEYS
    if result.kind == "walker":
        assert old["settings"].keys() == new["settings"].keys() == {"graph", "walk", "walker"}
        for group in old["settings"]:
            check_settings(old["settings"][group], new["settings"][group], group)
        check_scorer(old["scorer"], new["scorer"])
        for part in ("valid", "valid_complete_filter", "test", "valid_mrr_by"):
            assert (part in old) == (part in new)
            if old.get(part):
                check_rankings(old[part], new[part])
        changed_parts = {"settings", "scorer", "valid", "valid_complete_filter", "test", "valid_mrr_by"}
    else:
        check_scorer(old, new)
        changed_parts = {"settings", "members"}
    rest_of_old, rest_of_new = ({name: part for name, part in one.items() if name not in changed_parts} for one in (old, new))
    assert [*leaves(rest_of_old)] == [*leaves(rest_of_new)]
    assert result.name == old["name"] == FILES[file].stem and result.data == old["data"]["name"]


@pytest.mark.parametrize("name", LEDGER.data)
def test_statistics_of_data_sets_have_the_names_of_today(name: str):
    old, new = raw(RESULTS / DATA / f"{name}.json"), LEDGER.data[name]
    assert {*new} <= {field.name for field in fields(Statistics)}
    assert [*leaves(new)] == [*leaves(old)]


@pytest.mark.parametrize("file", [file for file in FILES if not file.startswith(("ensembles", UNFINISHED))])
def test_a_result_says_what_made_it(file: str):
    result = result_of(FILES[file])
    content, source = result.content, result.content["source"]
    assert content["command"].startswith("hopwalk train ")
    assert len(source["commit"]) == 40 and source["cpu"]
    assert result.history and result.seconds > 0


@pytest.mark.parametrize("file", [file for file in FILES if file.startswith("scorers")])
def test_the_numbers_of_a_scorer_agree(file: str):
    result = result_of(FILES[file])
    if not result.trained_on_dev:
        best = max(record["valid_mrr"] for record in result.history)
        most = (result.content.get("propagation") or result.content.get("rules") or {}).get("dev_queries", 0)
        if not 0 < most < result.content["valid"]["tails"]["num_queries"]:  # else training ranked a sample of the dev queries
            assert result.mrr("valid") == pytest.approx(100 * best)
    tails = result.content["test"]["tails"]
    assert 0 < tails["mrr_pessimistic"] <= tails["mrr"] <= 1


@pytest.mark.parametrize("file", [file for file in FILES if file.startswith("walkers")])
def test_a_walker_is_ranked_by_its_policy(file: str):
    result = result_of(FILES[file])
    assert "policy" in result.content["test"]
    for found in result.content["test"].values():
        assert 0 < found["tails"]["mrr_pessimistic"] <= found["tails"]["mrr"] <= found["tails"]["mrr_optimistic"] <= 1


def test_results_are_found_by_their_settings():
    spec = RunSpec("scorer", "umls", "complex", "modern")
    assert LEDGER.has(spec)
    assert {result.seed for result in LEDGER.find(spec)} >= {0, 1, 2}
    for data in Scope().data_sets:
        for name in VARIANTS:
            assert LEDGER.find(Scope().variant(data, "conve", "paper", name, is_released=False))
        assert LEDGER.find(Scope().first(Scope().walker(data, "none", "minerva")))
    assert LEDGER.find(Scope().first(Scope().scorer("umls", "conve", "paper")))


# README and docs


@pytest.mark.parametrize("name", ["scorers", "walker", *PAPER])
def test_pages_have_tables(name: str):
    assert "<!-- results: " in (paper_page.DOCS / f"{name}.md").read_text(encoding="utf-8")


def test_the_tables_of_speed_are_those_of_the_results():
    text = walkers.PAGE.read_text(encoding="utf-8")
    assert walkers.with_tables(text) == text, "make them again with: python -m benchmarks.walkers --tables"
    assert products.with_table(text) == text, "make it again with: python -m benchmarks.products --tables"
    assert text.count("<!-- speed: ") == 3


def test_the_page_of_the_paper_is_that_of_the_ledger():
    text, figures = paper_page.page_and_figures()
    remedy = "make it again with: python -m tools.paper_page"
    assert paper_page.PAGE.read_text(encoding="utf-8") == text, remedy
    assert {path.stem: path.read_text(encoding="utf-8") for path in paper_page.FIGURES.glob("*.svg")} == figures, remedy


@pytest.mark.parametrize("page", paper_page.PAGES, ids=lambda page: page.stem)
def test_numbers_of_a_page_are_those_of_the_ledger(page: Path):
    """Every number near the words MRR or hits@ is in a generated table or has a mark with its source."""
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
        ("The MRR is 95.7 (`results/propagation-budgets.json`).", []),
        ("The MRR is 95.7 (`results/of-nothing.json`).", ["95.7"]),
        ("A sentence of 3.5 words.\n\nMRR is mean reciprocal rank.", []),
        ("```console\nMRR 12.3\n```\n\n<!-- paper: short -->\nMRR 12.3\n<!-- end -->", []),
    ],
)
def test_numbers_without_a_mark_are_found(text: str, found: list[str]):
    assert [line.split()[0] for line in paper_page.unmarked(text)] == found


def test_marked_numbers_are_filled_in():
    scorer, walker = "umls-complex-modern-0", "umls-paper-conve-0"
    mrrs = {
        f"{scorer} test.tails.mrr": raw(FILES[f"scorers/{scorer}"])["test"]["tails"]["mrr"],
        f"{walker} test.policy.tails.mrr": raw(FILES[f"walkers/{walker}"])["test"]["paths"]["tails"]["mrr"],
    }
    for mark, mrr in mrrs.items():
        assert paper_page.filled(f"MRR 12.3<!-- {mark} -->") == f"MRR {100 * mrr:.1f}<!-- {mark} -->"
    for wrong in ("12.3<!-- no-such-run-0 test.tails.mrr -->", "12.34<!-- paper -->"):
        with pytest.raises(ValueError, match=r"there is no result|the paper has no number"):
            paper_page.filled(wrong)
