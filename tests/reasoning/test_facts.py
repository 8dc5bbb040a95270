"""Facts that are added to a trained run: they are walked, marked as known, and counted for rules."""

from pathlib import Path

import pytest

import hopwalk
from hopwalk.config.settings import changed
from hopwalk.data.graph import Graph
from hopwalk.errors import DataError, UnknownNameError
from hopwalk.reasoning.facts import read_facts
from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.reasoning.walker_model import WalkerModel
from tests.support.helpers import dataset_of
from tests.support.villages import ALONE, VILLAGE, settings_of, train_walker


@pytest.fixture(scope="module")
def reasoner(uncles_run: Path) -> Reasoner:
    return hopwalk.load(uncles_run)


def test_added_facts_are_walked_known_and_counted(reasoner: Reasoner):
    """A child gets another mother, and with her an uncle."""
    uncles = {tail for head, relation, tail in VILLAGE.labels_of(VILLAGE.facts) if (head, relation) == ("mother 5", "brother")}
    before = {answer.entity: answer for answer in reasoner.ask("child 0", "uncle", k=200)}
    more = reasoner.with_facts([("child 0", "mother", "mother 5"), ("child 0", "uncle", "man 15")])
    after = {answer.entity: answer for answer in more.ask("child 0", "uncle", k=200, num_paths=20)}
    for uncle in uncles:
        assert f"child 0 —mother→ mother 5 —brother→ {uncle}" in [str(path) for path in after[uncle].paths]
        assert uncle not in before or after[uncle].rank <= before[uncle].rank
    assert after["man 15"].is_known and not ("man 15" in before and before["man 15"].is_known)
    assert len(more.dataset.facts) == len(reasoner.dataset.facts) + 2
    groups = [group for uncle in uncles for group in more.explain("child 0", "uncle", uncle).reasons]
    paths = {str(path) for group in groups for path in group.paths}
    assert any(path.startswith("child 0 —mother→ mother 5") for path in paths)
    unchanged = {answer.entity: answer for answer in reasoner.ask("child 0", "uncle", k=200)}
    assert unchanged == before


def test_rules_are_counted_with_added_facts(reasoner: Reasoner):
    head, relation, tail = VILLAGE.labels_of(VILLAGE.test)[0]
    before = reasoner.explain(head, relation, tail).reasons[0].evidence.predictions
    more = reasoner.with_facts([(f"child {number}", "mother", "mother 5") for number in range(10)])
    assert more.explain(head, relation, tail).reasons[0].evidence.predictions != before


def test_added_facts_may_be_known_inverse_or_none(reasoner: Reasoner):
    known = VILLAGE.labels_of(VILLAGE.facts)[:5]
    assert len(reasoner.with_facts(known).dataset.facts) == len(VILLAGE.facts)
    assert reasoner.with_facts([]).ask("child 0", "uncle", k=5) == reasoner.ask("child 0", "uncle", k=5)
    turned = reasoner.with_facts([("MOTHER_5", "Mother⁻¹", "child 0")]).dataset
    assert ("child 0", "mother", "mother 5") in turned.labels_of(turned.facts)


def graph_of(reasoner: Reasoner) -> Graph:
    assert isinstance(reasoner.model, WalkerModel)
    return reasoner.model.decoder.environment.graph


def test_the_fan_out_limit_does_not_cut_added_facts(tmp_path: Path):
    star = dataset_of([("hub", "r", f"leaf {number}") for number in range(9)] + [("far", "s", "end")])
    settings = changed(settings_of(ALONE | {"walker.epochs": 1}), {"graph.fan_out": 2})
    reasoner = hopwalk.load(train_walker(star, settings, out=tmp_path / "run").path)
    more = reasoner.with_facts([("hub", "s", "far"), ("hub", "s", "end")])
    paths = [str(path) for answer in more.ask("hub", "s", k=20, num_paths=9) for path in answer.paths]
    assert {"hub —s→ far —s→ end", "hub —s→ end ←s— far"} <= {*paths}
    before, after = (int(graph_of(one).degrees.max()) for one in (reasoner, more))
    assert after == before + 2


@pytest.mark.parametrize(
    ("facts", "error", "message"),
    [
        ([("nobody", "mother", "mother 5")], UnknownNameError, r"fact 1 \(nobody mother mother 5\): there is no entity 'nobody'"),
        (
            [("child 0", "mother", "mother 5"), ("child 0", "mothr", "mother 5")],
            UnknownNameError,
            r"fact 2 .*no relation 'mothr'",
        ),
        ([("child 0", "mother")], DataError, r"fact 1 is not a \(head, relation, tail\) of texts: \('child 0', 'mother'\)"),
        ([("child 0", "mother", 5)], DataError, "fact 1 is not"),
        ([("child 0", "", "mother 5")], UnknownNameError, "the name of the relation is empty"),
    ],
)
def test_facts_that_cannot_be_added(reasoner: Reasoner, facts: list, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        reasoner.with_facts(facts)


def test_facts_from_files(reasoner: Reasoner, tmp_path: Path):
    table = tmp_path / "more.csv"
    table.write_text("head,relation,tail\nchild 0,uncle,man 15\n")
    for path in (table, str(table)):
        assert len(reasoner.with_facts(path).dataset.facts) == len(VILLAGE.facts) + 1
    rows, findings = read_facts(table)
    assert rows == [("child 0", "uncle", "man 15")] and [finding.code for finding in findings] == ["header"]
