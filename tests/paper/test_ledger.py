"""The ledger: runs are found by their settings, results are added and never overwritten."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hopwalk.errors import RunError
from hopwalk.paper.ledger import Ledger, Result
from hopwalk.paper.parts import ResultView
from hopwalk.paper.plan import Scope
from hopwalk.paper.run_spec import Stopping
from tests.support.results import COMPLEX, WALKER, scorer_content, walker_result


def rising(epochs: int) -> list[dict[str, Any]]:
    """A history whose dev MRR still rises."""
    return [{"epoch": epoch, "valid_mrr": epoch / 100} for epoch in range(1, epochs + 1)]


def test_a_run_is_found_by_its_settings_whatever_its_name_and_budget(tmp_path: Path):
    ledger = Ledger(tmp_path)
    settings = COMPLEX.settings.scorer.model_dump() | {"seed": 1, "patience": 99}
    ledger.add("scorer", scorer_content(name="another-name", settings=settings))
    assert [result.seed for result in ledger.find(COMPLEX)] == [1]
    assert ledger.has(replace(COMPLEX, seed=1)) and not ledger.has(COMPLEX)
    ledger.add("scorer", scorer_content(name="other", settings=settings | {"dimension": 7, "seed": 0}))
    assert not ledger.has(COMPLEX)
    del settings["relation_weight"]  # a setting that is younger than the result has its default
    ledger.add("scorer", scorer_content(name="older", settings=settings | {"seed": 2}))
    assert ledger.has(replace(COMPLEX, seed=2))


def test_a_run_that_was_cut_short_is_not_done(tmp_path: Path):
    ledger = Ledger(tmp_path)
    ledger.add("scorer", scorer_content(epochs=11, history=rising(11)))
    assert ledger.state(COMPLEX)[0] == "cut short" and not ledger.has(COMPLEX)
    falling = [{"epoch": epoch, "valid_mrr": 0.4 - epoch / 1000} for epoch in range(1, 62)]
    ledger.add("scorer", scorer_content(name="patient", epochs=61, history=falling))
    assert ledger.has(COMPLEX)


def test_a_run_that_a_shorter_patience_ended_is_cut_short():
    """The paper's stops below the mean of its last 200 evaluations, not after 30 without gain."""
    falling = [{"epoch": epoch, "valid_mrr": 0.7 - epoch / 1000} for epoch in range(1, 202)]
    for recorded, is_cut in ((40, True), (199, True), (200, False)):
        result = Result("scorer", scorer_content(epochs=recorded, history=falling[:recorded]))
        assert result.was_cut(Stopping(1000, 30, mean_window=200)) == is_cut
        assert not result.was_cut(Stopping(1000, 30))


def test_a_run_with_a_limit_of_epochs_is_done_for_that_limit(tmp_path: Path):
    limited = Scope(most_epochs=11).scorer("umls", "complex", "modern")
    ledger = Ledger(tmp_path)
    ledger.add("scorer", scorer_content(limited, epochs=11, history=rising(11)))
    assert ledger.has(limited) and not ledger.has(COMPLEX)
    assert ResultView(ledger, Scope()).group(COMPLEX).mark == "†"


def test_results_are_added_and_never_overwritten(tmp_path: Path):
    ledger = Ledger(tmp_path)
    path = ledger.add("scorer", scorer_content())
    before = path.read_text()
    with pytest.raises(RunError, match="already a result of that name"):
        ledger.add("scorer", scorer_content(note="better"))
    assert path.read_text() == before
    assert ledger.free_name(COMPLEX).name == "umls-complex-modern-v2-0"
    (result,) = ledger.results
    ledger.extend(result, {"more": 1, "note": "new", "epochs": 7})
    (extended,) = ledger.results
    assert (extended.content["more"], extended.epochs, extended.content["note"]) == (1, 100, "new")


def test_unfinished_runs_are_kept_until_they_are_finished(tmp_path: Path):
    ledger = Ledger(tmp_path)
    unfinished = scorer_content(kind="scorer", status="unfinished", test=None, valid=None)
    ledger.note_unfinished(unfinished)
    ledger.note_unfinished(unfinished | {"history": []})  # shorter than the one there
    (noted,) = ledger.results
    assert noted.history and not noted.is_finished and not ledger.has(COMPLEX)
    ledger.add("scorer", scorer_content())
    assert [result.is_finished for result in ledger.results] == [True]


def test_results_of_the_first_version_have_the_names_of_today(tmp_path: Path):
    """A walker with the first version's names of rankings, settings and keys, and with settings that are gone."""
    mrrs = {"paths": 0.5, "scorer": 0.6, "blend": 0.7}
    content = dict(walker_result("old", mrrs, has_learnt_dev=True).content)
    walker = content["settings"]["walker"]
    walker |= {"learn_valid": walker.pop("train_on_valid"), "dev_questions": walker.pop("dev_queries")}
    walker |= {"guidance": 0.0, "reward_weight": 0.0, "blend_weight": -1}
    (tmp_path / "walkers").mkdir()
    (tmp_path / "walkers" / "old.json").write_text(json.dumps(content))
    (old,) = Ledger(tmp_path).results
    assert old.trained_on_dev and old.fits(WALKER)
    assert (old.mrr("test"), old.mrr("test", "scorer")) == (50, 60)


def test_a_walker_that_started_from_another_is_not_a_run_of_its_settings():
    mrrs = {"policy": 0.4}
    assert walker_result("own", mrrs).fits(WALKER)
    assert not walker_result("started", mrrs, started_from={"weights_sha256": "12"}).fits(WALKER)


def test_a_propagation_model_is_found_by_its_own_settings_too():
    spec = Scope().scorer("umls", "propagation", "modern")
    own = spec.settings.propagation.model_dump()
    result = Result("scorer", scorer_content(spec, propagation=own | {"seed": 5}))
    assert result.fits(spec) and not result.is_embedding_scorer
    assert not Result("scorer", scorer_content(spec, propagation=own | {"layers": 7})).fits(spec)
    assert not result.was_cut(Stopping(10**6, 10))  # its budget is a number of queries
    about = {"kind": "scorer", "settings": spec.settings.scorer.model_dump(), "best_epoch": 5, "epochs": 5}
    assert not walker_result("x", {"policy": 0.5}, scorer=about).has_cut_scorer


def test_an_ensemble_is_cut_short_if_a_member_is(tmp_path: Path):
    ledger = Ledger(tmp_path)
    settings = replace(COMPLEX, most_epochs=8).settings.scorer.model_dump()
    member = {"name": "1-complex", "kind": "scorer", "settings": settings, "valid_mrr": 0.4, "epochs": 8, "best_epoch": 8}
    whole = member | {"epochs": 200, "best_epoch": 90}
    numbers = {name: scorer_content()[name] for name in ("data", "valid", "test")}
    ledger.add("ensemble", numbers | {"name": "a", "members": [whole, {"name": "older", "valid_mrr": 0.4}]})
    ledger.add("ensemble", numbers | {"name": "b", "members": [whole, member]})
    assert [result.was_cut(Stopping(0, 0)) for result in ledger.results] == [False, True]
    assert all(result.settings == {} for result in ledger.results)


def test_ensembles_with_other_members_are_other_scorers():
    settings = COMPLEX.settings.scorer.model_dump()
    scorers = [
        {"kind": "ensemble", "settings": settings, "members": [{"name": "1", "settings": settings | change}]}
        for change in ({}, {"seed": 3}, {"dimension": 7})
    ]
    found = [walker_result("x", {"policy": 0.5}, scorer=scorer).rewarded_by for scorer in scorers]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("content", ["{", "{}", "[]"])
def test_a_damaged_file_is_refused(tmp_path: Path, content: str):
    (tmp_path / "scorers").mkdir()
    (tmp_path / "scorers" / "x.json").write_text(content)
    with pytest.raises(RunError, match=r"x\.json: (the file cannot be read|this is not a result file)"):
        _ = Ledger(tmp_path).results


def test_a_file_is_not_a_ledger(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="a file, not a folder"):
        Ledger(tmp_path / "file")


def test_a_result_is_a_value():
    assert Result("ensemble", {"name": "x", "data": {"name": "umls"}}) == Result(
        "ensemble", {"name": "x", "data": {"name": "umls"}}
    )
