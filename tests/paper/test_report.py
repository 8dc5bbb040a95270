"""The report: every table with the paper's numbers, the marks of unfinished runs, and nothing that was not run."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hopwalk.paper.ledger import Ledger
from hopwalk.paper.parts import ResultView
from hopwalk.paper.plan import Scope, targets_of
from hopwalk.paper.report import html, markdown, sections_of
from hopwalk.paper.run_spec import RunSpec
from hopwalk.paper.tables import best_of
from tests.support.results import COMPLEX, WALKER, scorer_content, walker_result

RESULTS = Path(__file__).parents[2] / "results"
RISING = [{"epoch": epoch, "valid_mrr": 0.2 * epoch} for epoch in (1, 2)]


@pytest.fixture(scope="module")
def project() -> ResultView:
    return ResultView(Ledger(RESULTS), Scope())


def view_of(folder: Path, *data_sets: str) -> ResultView:
    return ResultView(Ledger(folder), Scope(data_sets or ("umls",)))


def test_the_report_has_every_table_with_the_papers_numbers(project: ResultView):
    text = markdown(sections_of(targets_of(["all"]), project))
    for name in ("Table 1", "Table 2", "Table 3", "Table 4", "Table 5", "Figure 2", "Figure 4", "Appendix: seeds"):
        assert f"## {name}" in text
    for number in ("(86.8)", "(73.0)", "(62.5)", "(68.5)", "(95.5 ± 0.4)", "(95.1)", "38.63"):
        assert number in text
    assert ", quoted |" not in text  # we have run every model of Table 2
    assert "| NTP-λ | modern |" in text and "(91.2)" in text
    for title in ("walker alone", "embedding scorer"):
        assert text.count(f"| best {title} |") == 6  # the summary, and one table for each data set
    for title in ("NeuralLP", "DRUM", "walker, propagation"):
        assert text.count(f"| {title} |") >= 6


def test_the_html_is_self_contained_and_its_policy_allows_its_style(project: ResultView):
    page = html(sections_of(targets_of(["all"]), project))
    assert "<script" not in page and "http:" not in page.replace("http://www.w3.org/2000/svg", "") and "style=" not in page
    assert page.count("<style>") == 1
    assert "Content-Security-Policy" in page and "sha256-" in page


def test_an_empty_ledger_gives_no_numbers_of_ours(tmp_path: Path):
    text = markdown(sections_of(targets_of(["table2", "table3"]), view_of(tmp_path)))
    ours = re.findall(r"^\| (?!NTP)[^|]*\|.*?[| ](\d+\.\d)[ †|]", text, flags=re.MULTILINE)
    assert not ours
    assert "not run (94.0)" in text and "`hopwalk train umls --walker paper --seed 0 --reward conve --recipe paper`" in text


def test_means_over_seeds_and_marks_of_unfinished_runs(tmp_path: Path):
    view = view_of(tmp_path)
    for seed, mrr in ((0, 0.90), (1, 0.94)):
        content = scorer_content(replace(COMPLEX, seed=seed))
        content["test"] = content["test"] | {"tails": content["test"]["tails"] | {"mrr": mrr}}
        view.ledger.add("scorer", content)
    assert view.group(COMPLEX).text("test") == "92.0 ± 2.8"
    conve = RunSpec("scorer", "umls", "conve", "modern")
    view.ledger.note_unfinished(scorer_content(conve, kind="scorer", status="unfinished", test=None, history=RISING))
    text = markdown(sections_of(targets_of(["table2"]), view))
    assert "dev 40.0‡ (95.7)" in text and "‡ unfinished" in text
    assert "](figures/curve-umls-conve-modern-0.svg)" in text
    assert re.search(r"\| best embedding scorer \| complex-modern \| 2 \|", text)


def test_a_limit_of_epochs_is_marked_and_only_finished_runs_count(tmp_path: Path):
    ledger, limited = Ledger(tmp_path), replace(COMPLEX, most_epochs=2)
    ledger.add("scorer", scorer_content(limited, epochs=2, history=RISING))
    unfinished = {"kind": "scorer", "status": "unfinished", "test": None, "valid": None, "history": RISING[:1]}
    ledger.note_unfinished(scorer_content(replace(COMPLEX, seed=1), **unfinished))
    group = ResultView(ledger, Scope(("umls",), most_epochs=2)).group(limited)
    assert (group.text("test"), len(group.shown), group.epochs) == ("50.0†", 1, "2")


def test_seeds_that_were_cut_short_are_not_averaged_with_one_that_was_not(tmp_path: Path):
    ledger = Ledger(tmp_path)
    ledger.add("scorer", scorer_content(replace(COMPLEX, most_epochs=2), epochs=2, history=RISING))
    ledger.add("scorer", scorer_content(replace(COMPLEX, most_epochs=2, seed=1), epochs=2, history=RISING))
    view = ResultView(ledger, Scope(("umls",)))
    assert view.group(COMPLEX).text("test") == "50.0 ± 0.0†"
    whole = scorer_content(replace(COMPLEX, seed=2), epochs=COMPLEX.settings.scorer.epochs)
    whole["test"] = whole["test"] | {"tails": whole["test"]["tails"] | {"mrr": 0.6}}
    ledger.add("scorer", whole)
    assert ResultView(Ledger(tmp_path), Scope(("umls",))).group(COMPLEX).text("test") == "60.0"


def test_unfinished_runs_are_in_the_summary_too(tmp_path: Path):
    view, conve = view_of(tmp_path, "wn18rr"), RunSpec("scorer", "wn18rr", "conve", "modern")
    unfinished = {"kind": "scorer", "status": "unfinished", "test": None, "valid": None, "history": RISING}
    view.ledger.note_unfinished(scorer_content(conve, **unfinished))
    text = markdown(sections_of(targets_of(["table2"]), view))
    assert "| ConvE | dev 40.0‡ (44.9) |" in text


# The best runs of any settings


def test_the_best_has_one_run_for_each_seed(tmp_path: Path):
    view = view_of(tmp_path)
    view.ledger.add("scorer", scorer_content(name="umls-short-0", epochs=50))
    view.ledger.add("scorer", scorer_content(name="umls-long-0", history=[{"epoch": 100, "valid_mrr": 0.45}]))
    group = best_of(view, "umls")["embedding scorer"]
    assert [result.name for result in group.results] == ["umls-long-0"]


def test_the_best_are_chosen_by_kind(tmp_path: Path):
    view = view_of(tmp_path)
    for name, mrr in (("umls-good-0", 0.7), ("umls-poor-0", 0.4)):
        view.ledger.add("walker", walker_result(name, {"policy": mrr}, walker={"dimension": round(100 * mrr)}).content)
    view.ledger.add("scorer", scorer_content())
    for model in ("propagation", "drum"):
        view.ledger.add("scorer", scorer_content(RunSpec("scorer", "umls", model, "modern"), propagation={}))
    assert {title: group.results[0].name for title, group in best_of(view, "umls").items()} == {
        "walker alone": "umls-good-0",
        "embedding scorer": "umls-complex-modern-0",
        "DRUM": "umls-drum-modern-0",
        "propagation": "umls-propagation-modern-0",
    }


def test_ensembles_of_walks_alone_stand_apart_from_those_with_embeddings(tmp_path: Path):
    view = view_of(tmp_path)
    for name, models in (
        ("walks", ["propagation", "drum"]),
        ("both", ["propagation", "complex"]),
        ("none", ["complex", "conve"]),
    ):
        members = [{"name": model, "kind": "scorer", "settings": {"model": model}} for model in models]
        view.ledger.add("ensemble", scorer_content(name=f"umls-{name}", kind="ensemble", members=members))
    assert {title: group.results[0].name for title, group in best_of(view, "umls").items()} == {
        "embedding scorer": "umls-none",
        "several propagation models together": "umls-walks",
        "propagation with an embedding scorer": "umls-both",
    }


def test_a_run_that_was_trained_on_dev_has_a_row_of_its_own(tmp_path: Path):
    view = view_of(tmp_path)
    settings = COMPLEX.settings.scorer.model_dump()
    view.ledger.add("scorer", scorer_content())
    better = {"tails": scorer_content()["test"]["tails"] | {"mrr": 0.9}, "strata": {}}
    view.ledger.add("scorer", scorer_content(name="with-dev", settings=settings | {"train_on_valid": True}, test=better))
    text = markdown(sections_of(targets_of(["table2"]), view))
    assert "| ComplEx | 50.0 (93.4) |" in text  # the summary
    assert re.search(r"\| ComplEx \| modern \| 1 \|.* 50\.0 \(93\.4\)", text)
    assert re.search(r"\| ComplEx, trained on dev too \| modern \| 1 \|.* 90\.0 \(93\.4\)", text)
    assert [result.name for result in best_of(view, "umls")["embedding scorer"].results] == [COMPLEX.name]


def test_table_3_has_the_papers_dev_queries_and_all(project: ResultView):
    """On NELL-995 102 of 543 queries are left out; no walk answers them, so the others have 543/441 of the MRR."""
    text = markdown(sections_of(targets_of(["table3"]), project))
    lines = text.splitlines()
    header, row = (next(line for line in lines if line.startswith(f"| {start} |")) for start in ("walker", "paper, ConvE: whole"))
    cells = dict(zip(header.split(" | "), row.split(" | "), strict=True))
    papers, all_queries = (float(re.split(r"[† |]", cells[title])[0]) for title in ("NELL-995", "NELL-995, all queries |"))
    assert papers == pytest.approx(all_queries * 543 / 441, abs=0.1)
    assert "(78.8)" in cells["NELL-995"] and "(" not in cells["NELL-995, all queries |"]


def test_a_walker_is_marked_if_its_scorer_was_cut_short(tmp_path: Path):
    settings = replace(COMPLEX, most_epochs=8).settings.scorer.model_dump()
    cut = {"kind": "scorer", "settings": settings, "valid_mrr": 0.4, "best_epoch": 8}  # it has all the epochs of its settings
    whole = cut | {"settings": COMPLEX.settings.scorer.model_dump(), "epochs": 90, "best_epoch": 30}
    mixed = {"kind": "ensemble", "settings": settings, "members": [{"name": "1"} | whole, {"name": "2"} | cut]}
    marks = {}
    for name, scorer in {"cut": cut, "whole": whole, "mixed": mixed}.items():
        view = view_of(tmp_path / name)
        view.ledger.add("walker", walker_result("umls-0", {"policy": 0.4}, scorer=scorer).content)
        marks[name] = best_of(view, "umls")["walker alone"].mark
    assert marks == {"cut": "†", "whole": "", "mixed": "†"}
    assert Ledger(tmp_path / "cut").has(WALKER)  # the walker itself needs no more epochs
