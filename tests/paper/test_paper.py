"""The paper made again: what is planned, what the ledger keeps, what the report says."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hopwalk.errors import RunError, SettingsError, UnknownNameError
from hopwalk.paper import running
from hopwalk.paper.ledger import Ledger, Result
from hopwalk.paper.parts import ResultView
from hopwalk.paper.plan import UNGUIDED, Scope, planned, targets_of
from hopwalk.paper.published import FIVE_SEEDS, TABLE_1, TABLE_2, TABLE_2_QUOTED, TABLE_3, TABLE_4, TABLE_5, TITLES
from hopwalk.paper.report import html, markdown, sections_of
from hopwalk.paper.run_spec import RunSpec
from hopwalk.paper.tables import best_of
from hopwalk.utils.charts import Series, bar_chart, line_chart

RESULTS = Path(__file__).parents[2] / "results"


# What the paper says


def test_the_papers_tables_agree_with_each_other():
    """Numbers typed from different tables: the whole is the mean of its parts, and of about the seeds' mean."""
    for data in TITLES:
        for table in (TABLE_4, TABLE_5):
            parts = table[data].values()
            assert sum(part.share for part in parts) == pytest.approx(100)
            for variant in range(3):
                whole = sum(part.share * part.mrr[variant] for part in parts if part.mrr) / 100
                assert whole == pytest.approx(
                    TABLE_3[data][variant], abs=1.9 if data == "nell-995" else 0.5
                )  # of which not all add up
        for model, found in FIVE_SEEDS[data].items():
            assert TABLE_2[data][model][2] == pytest.approx(found.mean, abs=0.5)
        for numbers in [*TABLE_2[data].values(), *TABLE_2_QUOTED[data].values()]:
            assert numbers[0] < numbers[2] < numbers[1]
    assert sorted(TABLE_1) == sorted(TITLES)


# What is wanted


def test_a_wanted_run_has_a_name_settings_and_a_command():
    spec = RunSpec("walker", "umls", "conve", "paper", 3, ("walker.action_dropout=0.0",), "no-ad")
    assert (spec.name, spec.folder) == ("umls-paper-conve-no-ad-3", "walker-umls-paper-conve-no-ad-3")
    assert spec.settings.walker.action_dropout == 0 and spec.settings.walker.seed == 3
    assert spec.command == (
        "hopwalk train umls --walker paper --seed 3 --reward conve --recipe paper --set scorer.seed=0"
        " --set walker.action_dropout=0.0"
    )
    assert spec.scorer.name == "umls-conve-paper-0"
    assert RunSpec("walker", "umls", "complex", "modern", 3).scorer.name == "umls-complex-modern-3"
    assert RunSpec("walker", "wn18rr", "conve", "paper").scorer.name == "wn18rr-conve-modern-0"
    alone = RunSpec("walker", "umls", "none", "minerva")
    assert not alone.needs_scorer and not alone.settings.walker.reward_shaping


def test_plans_name_each_run_once_and_scorers_first():
    runs = planned(targets_of(["all"]), Scope())
    names = [run.name for run in runs]
    assert len(names) == len({*names})
    for place, run in enumerate(runs):
        if run.needs_scorer:
            assert run.scorer.name in names[:place]
    assert {run.data for run in runs} == {*TITLES}
    assert sum(run.name.startswith("umls-paper-conve-") and not run.label for run in runs) == 5


def test_runs_can_be_chosen_by_name():
    runs = planned(targets_of(["table3"]), Scope())
    assert [run.name for run in running.only_named(runs, ["umls-paper-conve-no-rs-0", "kinship-*-no-ad-0"])] == [
        "umls-paper-conve-no-rs-0",
        "kinship-paper-conve-no-ad-0",
    ]
    with pytest.raises(UnknownNameError, match=r"no run 'umls-paper-conv-0' is planned\. Did you mean"):
        running.only_named(runs, ["umls-paper-conv-0"])


def test_unknown_names():
    with pytest.raises(UnknownNameError, match=r"table6'\. Did you mean 'table"):
        targets_of(["table6"])
    with pytest.raises(SettingsError, match="no data set 'umsl'"):
        running.scope_of(["umsl"], None)
    assert running.scope_of(["FB15k237", "umls"], None).data_sets == ("umls", "fb15k-237")
    with pytest.raises(SettingsError, match="--quick is for umls"):
        running.scope_of(["kinship"], None, quick=True)


def test_a_file_is_no_folder(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="a file, not a folder"):
        running.reproduce(["table1"], out=tmp_path / "file")
    with pytest.raises(RunError, match="a file, not a folder"):
        running.reproduce(["table1"], out=tmp_path, runs=tmp_path / "file")
    with pytest.raises(RunError, match="a file, not the folder of a ledger"):
        Ledger(tmp_path / "file")


# The ledger


def result_of(spec: RunSpec, **changes: Any) -> dict[str, Any]:
    """What the ledger says of a scorer that was trained as wanted."""
    numbers = {"tails": {"mrr": 0.5, "hits@1": 0.4, "hits@10": 0.6, "unreached": 0.0, "num_queries": 10}, "strata": {}}
    return {
        "name": spec.name,
        "data": {"name": spec.data},
        "settings": spec.settings.scorer.model_dump(),
        "status": "finished",
        "training_seconds": 5.0,
        "epochs": 100,
        "history": [{"epoch": 100, "valid_mrr": 0.4}],
        "valid": numbers,
        "test": numbers,
    } | changes


COMPLEX = RunSpec("scorer", "umls", "complex", "modern")


def test_a_run_is_found_by_its_settings_whatever_its_name_and_budget(tmp_path: Path):
    ledger = Ledger(tmp_path)
    settings = COMPLEX.settings.scorer.model_dump() | {"seed": 1, "patience": 99}
    ledger.add("scorer", result_of(COMPLEX, name="called-otherwise", settings=settings))
    assert [result.seed for result in ledger.find(COMPLEX)] == [1]
    assert ledger.has(replace(COMPLEX, seed=1)) and not ledger.has(COMPLEX)
    other = result_of(COMPLEX, name="other", settings=settings | {"dimension": 7, "seed": 0})
    ledger.add("scorer", other)
    assert not ledger.has(COMPLEX)
    del settings["relation_weight"]  # a setting that is younger than the result has its default
    ledger.add("scorer", result_of(COMPLEX, name="older", settings=settings | {"seed": 2}))
    assert ledger.has(replace(COMPLEX, seed=2))


def test_what_was_cut_short_is_not_done(tmp_path: Path):
    ledger = Ledger(tmp_path)
    rising = [{"epoch": epoch, "valid_mrr": epoch / 100} for epoch in range(1, 12)]
    ledger.add("scorer", result_of(COMPLEX, epochs=11, history=rising))
    assert not ledger.has(COMPLEX)
    level = [{"epoch": epoch, "valid_mrr": 0.4 - epoch / 1000} for epoch in range(1, 62)]
    ledger.add("scorer", result_of(COMPLEX, name="patient", epochs=61, history=level))
    assert ledger.has(COMPLEX)


def test_a_limit_of_epochs_makes_no_other_run_and_is_enough(tmp_path: Path):
    limited = Scope(most_epochs=11).scorer("umls", "complex", "modern")
    assert limited.name == COMPLEX.name and limited.settings.scorer.epochs == 11
    assert limited.command.endswith("--set scorer.epochs=11")
    rising = [{"epoch": epoch, "valid_mrr": epoch / 100} for epoch in range(1, 12)]
    ledger = Ledger(tmp_path)
    ledger.add("scorer", result_of(limited, epochs=11, history=rising))
    assert ledger.has(limited) and not ledger.has(COMPLEX)
    assert ResultView(ledger, Scope()).group(COMPLEX).mark == "†"
    assert Scope(most_epochs=11).walker("umls", "complex", "modern").settings.walker.epochs == 11
    assert (
        Scope(most_epochs=9999).walker("umls", "complex", "modern").settings
        == RunSpec("walker", "umls", "complex", "modern").settings
    )


def test_results_are_added_and_never_overwritten(tmp_path: Path):
    ledger = Ledger(tmp_path)
    path = ledger.add("scorer", result_of(COMPLEX))
    before = path.read_text()
    with pytest.raises(RunError, match="already"):
        ledger.add("scorer", result_of(COMPLEX, note="better"))
    assert path.read_text() == before
    assert ledger.free_name(COMPLEX).name == "umls-complex-modern-v2-0"
    (result,) = ledger.results
    ledger.extend(result, {"more": 1, "note": "new", "epochs": 7})
    (extended,) = ledger.results
    assert (extended.content["more"], extended.epochs, extended.content["note"]) == (1, 100, "new")


def test_unfinished_runs_are_noted_until_they_are_finished(tmp_path: Path):
    ledger = Ledger(tmp_path)
    begun = result_of(COMPLEX, kind="scorer", status="unfinished", test=None, valid=None)
    ledger.note_unfinished(begun)
    ledger.note_unfinished(begun | {"history": []})  # of no use: it had come further
    (noted,) = ledger.results
    assert noted.history and not noted.is_finished and not ledger.has(COMPLEX)
    ledger.add("scorer", result_of(COMPLEX))
    assert [result.is_finished for result in ledger.results] == [True]


def walker_of(name: str, by: dict[str, float], **changes: Any) -> Result:
    """A walker of the ledger with these MRRs on dev and test, and today's settings."""
    groups = {group: getattr(WALKER.settings, group).model_dump() for group in ("graph", "walk", "walker")}
    ranked = {way: {"tails": {"mrr": mrr}, "strata": {}} for way, mrr in by.items()}
    scorer = {"kind": "scorer", "settings": {"model": "complex"}}
    content = result_of(WALKER, name=name, settings=groups, scorer=scorer, valid=ranked, test=ranked)
    return Result("walker", content | changes)


WALKER = RunSpec("walker", "umls", "complex", "modern")


def test_results_that_are_older_than_a_setting_were_without_it():
    old = walker_of("old", {"paths": 0.5, "scorer": 0.6, "blend": 0.7})
    del old.content["settings"]["walker"]["rerank_weight"]
    assert old.own["rerank_weight"] == 0
    assert not old.fits(WALKER)
    assert old.mrr("test", "probability") == old.mrr("test", "paths") == 50


def test_a_walker_that_began_with_another_is_no_run_of_its_settings():
    ranked = {"paths": 0.5, "probability": 0.4}
    assert walker_of("own", ranked).fits(WALKER)
    assert not walker_of("started", ranked, started_from={"weights_sha256": "12"}).fits(WALKER)


def test_the_best_by_reward_is_one_that_counts_it(tmp_path: Path):
    ledger = Ledger(tmp_path)
    ledger.add("walker", walker_of("umls-with-0", {"paths": 0.5, "probability": 0.3, "blend": 0.6}).content)
    better = {"paths": 0.7, "blend": 0.6}
    alone = walker_of("umls-alone-0", better)
    alone.content["settings"]["walker"]["rerank_weight"] = 0.0
    ledger.add("walker", alone.content)
    best = best_of(ResultView(Ledger(tmp_path), Scope()), "umls")
    chosen = {title: group.results[0].name for title, (group, _) in best.items()}
    assert chosen["best walker, paths by probability and reward"] == "umls-with-0"
    assert chosen["best walker, paths by probability"] == "umls-alone-0"


def test_a_damaged_file_is_told(tmp_path: Path):
    (tmp_path / "scorers").mkdir()
    (tmp_path / "scorers" / "x.json").write_text("{")
    with pytest.raises(RunError, match="cannot be read"):
        _ = Ledger(tmp_path).results
    (tmp_path / "scorers" / "x.json").write_text("{}")
    with pytest.raises(RunError, match="no file of a ledger"):
        _ = Ledger(tmp_path).results


def test_the_ledger_of_the_project_is_found_by_its_settings():
    ledger = Ledger(RESULTS)
    assert ledger.has(COMPLEX)
    assert {result.seed for result in ledger.find(COMPLEX)} >= {0, 1, 2}
    assert ledger.find(Scope().variant("umls", "complex", "modern", "−AD", UNGUIDED))


# The report


@pytest.fixture(scope="module")
def full() -> ResultView:
    return ResultView(Ledger(RESULTS), Scope())


def test_the_report_has_every_table_with_the_papers_numbers(full: ResultView):
    text = markdown(sections_of(targets_of(["all"]), full))
    for name in ("Table 1", "Table 2", "Table 3", "Table 4", "Table 5", "Figure 2", "Figure 4", "Appendix: seeds"):
        assert f"## {name}" in text
    for number in ("(86.8)", "(73.0)", "(62.5)", "(68.5)", "(95.5 ± 0.4)", "(95.1)", "38.63"):
        assert number in text
    assert "NTP-λ, quoted" in text


def test_the_html_needs_nothing_else_and_its_policy_allows_its_style(full: ResultView):
    page = html(sections_of(targets_of(["all"]), full))
    assert "<script" not in page and "http:" not in page.replace("http://www.w3.org/2000/svg", "") and "style=" not in page
    assert page.count("<style>") == 1
    assert "Content-Security-Policy" in page and "sha256-" in page


def test_what_is_missing_is_said_and_nothing_is_invented(tmp_path: Path):
    view = ResultView(Ledger(tmp_path), Scope(("umls",)))
    text = markdown(sections_of(targets_of(["table2", "table3"]), view))
    numbers_of_ours = re.findall(r"^\| (?!NeuralLP|NTP)[^|]*\|.*?[| ](\d+\.\d)[ †|]", text, flags=re.MULTILINE)
    assert not numbers_of_ours
    assert "not run (94.0)" in text and "`hopwalk train umls --walker paper --seed 0 --reward conve --recipe paper`" in text


def test_means_marks_and_what_dev_chooses(tmp_path: Path):
    ledger = Ledger(tmp_path)
    for seed, mrr in ((0, 0.90), (1, 0.94)):
        spec = replace(COMPLEX, seed=seed)
        content = result_of(spec)
        content["test"] = content["test"] | {"tails": content["test"]["tails"] | {"mrr": mrr}}
        ledger.add("scorer", content)
    view = ResultView(ledger, Scope(("umls",)))
    assert view.group(COMPLEX).text("test") == "92.0 ± 2.8"
    rising = [{"epoch": epoch, "valid_mrr": 0.2 * epoch} for epoch in (1, 2)]
    begun = result_of(RunSpec("scorer", "umls", "conve", "modern"), kind="scorer", status="unfinished", test=None, history=rising)
    ledger.note_unfinished(begun)
    text = markdown(sections_of(targets_of(["table2"]), view))
    assert "dev 40.0‡ (95.7)" in text and "‡ unfinished" in text
    assert "](figures/curve-umls-conve-modern-0.svg)" in text
    assert re.search(r"\| best scorer \| complex-modern \| 2 \|", text)


def test_a_limit_of_epochs_is_marked_and_only_what_is_finished_counts(tmp_path: Path):
    ledger = Ledger(tmp_path)
    limited = replace(COMPLEX, most_epochs=2)
    rising = [{"epoch": epoch, "valid_mrr": 0.2 * epoch} for epoch in (1, 2)]
    settings = limited.settings.scorer.model_dump()
    ledger.add("scorer", result_of(COMPLEX, settings=settings, epochs=2, history=rising))
    begun = replace(COMPLEX, seed=1)
    ledger.note_unfinished(result_of(begun, kind="scorer", status="unfinished", test=None, valid=None, history=rising[:1]))
    group = ResultView(ledger, Scope(("umls",), most_epochs=2)).group(limited)
    assert (group.text("test"), len(group.shown), group.epochs) == ("50.0†", 1, "2")


def test_the_best_has_one_run_for_each_seed(tmp_path: Path):
    ledger = Ledger(tmp_path)
    better = [{"epoch": 100, "valid_mrr": 0.45}]
    for name, epochs, history in (("short", 50, None), ("long", 100, better)):
        content = result_of(COMPLEX, name=f"umls-{name}-0", epochs=epochs)
        ledger.add("scorer", content | ({"history": history} if history else {}))
    group, _ = best_of(ResultView(ledger, Scope(("umls",))), "umls")["best scorer"]
    assert [result.name for result in group.results] == ["umls-long-0"]


def test_what_has_begun_is_said_in_short_too(tmp_path: Path):
    ledger = Ledger(tmp_path)
    rising = [{"epoch": epoch, "valid_mrr": 0.2 * epoch} for epoch in (1, 2)]
    begun = RunSpec("scorer", "wn18rr", "conve", "modern")
    ledger.note_unfinished(result_of(begun, kind="scorer", status="unfinished", test=None, valid=None, history=rising))
    text = markdown(sections_of(targets_of(["table2"]), ResultView(ledger, Scope(("wn18rr",)))))
    assert "| ConvE | dev 40.0‡ (44.9) |" in text


def test_an_ensemble_is_marked_by_its_members(tmp_path: Path):
    ledger = Ledger(tmp_path)
    settings = RunSpec("scorer", "umls", "complex", "modern", most_epochs=8).settings.scorer.model_dump()
    member = {"name": "1-complex", "kind": "scorer", "settings": settings, "valid_mrr": 0.4, "epochs": 8, "best_epoch": 8}
    whole = member | {"epochs": 200, "best_epoch": 90}
    numbers = {name: result_of(COMPLEX)[name] for name in ("data", "valid", "test")}
    ledger.add("ensemble", numbers | {"name": "a", "members": [whole, {"name": "older", "valid_mrr": 0.4}]})
    ledger.add("ensemble", numbers | {"name": "b", "members": [whole, member]})
    assert [result.was_cut(0) for result in ledger.results] == [False, True]


def test_a_walker_is_marked_by_its_scorer(tmp_path: Path):
    settings = replace(COMPLEX, most_epochs=8).settings.scorer.model_dump()
    cut = {"kind": "scorer", "settings": settings, "valid_mrr": 0.4, "best_epoch": 8}  # as long as it was asked to be
    whole = cut | {"settings": COMPLEX.settings.scorer.model_dump(), "epochs": 90, "best_epoch": 30}
    mixed = {"kind": "ensemble", "settings": settings, "members": [{"name": "1"} | whole, {"name": "2"} | cut]}
    marks = {}
    for name, scorer in {"cut": cut, "whole": whole, "mixed": mixed}.items():
        ledger = Ledger(tmp_path / name)
        ledger.add("walker", walker_of("umls-0", {"paths": 0.5, "probability": 0.4, "blend": 0.6}, scorer=scorer).content)
        group, _ = best_of(ResultView(ledger, Scope(("umls",))), "umls")["best blend"]
        marks[name] = group.mark
    assert marks == {"cut": "†", "whole": "", "mixed": "†"}
    assert Ledger(tmp_path / "cut").has(WALKER)  # the walker itself needs no more epochs


def test_ensembles_with_other_members_are_other_scorers():
    settings = COMPLEX.settings.scorer.model_dump()
    rewards = [
        {"kind": "ensemble", "settings": settings, "members": [{"name": "1", "settings": settings | change}]}
        for change in ({}, {"seed": 3}, {"dimension": 7})
    ]
    told = [walker_of("x", {"paths": 0.5}, scorer=reward).rewarded_by for reward in rewards]
    assert told[0] == told[1] != told[2]


# Charts


def test_charts_are_svg_that_tells_what_it_shows():
    lines = [Series("ours & more", [(1, 10.0), (2, 30.0)], level=20.0), Series("empty", [])]
    for made in (line_chart("A <title>", lines, x_label="epoch", y_label="MRR"), bar_chart("Bars", [("a", 1.0), ("b", 0.0)])):
        root = ElementTree.fromstring(made)
        assert root.get("role") == "img"
        title, told = (root.find(f"{{http://www.w3.org/2000/svg}}{name}") for name in ("title", "desc"))
        assert title is not None and title.text and told is not None and told.text
    picture = line_chart("x", lines, x_label="epoch", y_label="MRR")
    assert "ours &amp; more: from 10 to 30" in picture and "empty" not in picture
    assert "no data" in line_chart("x", [], x_label="epoch", y_label="MRR")
    flat = line_chart("x", [Series("level", [(1, 5.0), (2, 5.0)])], x_label="epoch", y_label="MRR")
    assert "nan" not in flat


def test_results_have_a_kind_and_are_values():
    assert Result("ensemble", {"name": "x", "data": {"name": "umls"}}).settings == {}
