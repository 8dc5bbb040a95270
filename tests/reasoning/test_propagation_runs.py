"""A run of propagation as a reasoner: it ranks by its walks, and explains, completes, compares and is served like a walker."""

import json
from pathlib import Path

import polars as pl
import pytest

from hopwalk import api
from hopwalk.reasoning.reasoner import Reasoner
from tests.support.villages import ALONE, VILLAGE, settings_of, train_walker

RULE = "uncle(X,Y) ⇐ mother(X,A), brother(A,Y)"


@pytest.fixture(scope="module")
def reasoner(propagation_run: Path) -> Reasoner:
    return api.load(propagation_run)


def test_its_description(reasoner: Reasoner):
    assert repr(reasoner).endswith(f"{len(VILLAGE.facts)} facts; paths of ≤ 2 hops)")
    assert reasoner.card.startswith("# Propagation on test")


def test_a_predicted_answer_has_its_path(reasoner: Reasoner):
    head, relation, tail = VILLAGE.labels_of(VILLAGE.test)[0]
    answers = reasoner.ask(head, relation, k=5)
    (found,) = [answer for answer in answers if answer.entity == tail]
    assert not found.is_known and found.probability is not None and found.probability > 0.3
    assert [edge.relation for edge in found.paths[0].edges] == ["mother", "brother"] and 0 < found.paths[0].share <= 1
    assert all((answer.probability is None) == answer.is_known for answer in answers)
    assert head not in [answer.entity for answer in reasoner.ask(head, relation, k=200)]
    assert json.loads(json.dumps(answers.to_dict())) == answers.to_dict()


@pytest.mark.parametrize("only_new", [False, True])
def test_many_queries_together_are_answered_as_one_by_one(reasoner: Reasoner, only_new: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(type(reasoner.model), "queries_at_once", 4)
    queries = [(f"child {number}", "uncle") for number in range(5)] + [("man 1", "uncle⁻¹"), ("child 0", "uncle")]
    together = reasoner.ask_many(queries, k=4, num_paths=2, only_new=only_new)
    for query, answers in zip(queries, together, strict=True):
        alone = reasoner.ask(*query, k=4, num_paths=2, only_new=only_new)
        assert [answer.entity for answer in answers] == [answer.entity for answer in alone]
        assert [answer.score for answer in answers] == pytest.approx([answer.score for answer in alone], abs=1e-4)
        assert [[str(path) for path in answer.paths] for answer in answers] == [
            [str(path) for path in answer.paths] for answer in alone
        ]


def test_explanations(reasoner: Reasoner):
    head, relation, tail = VILLAGE.labels_of(VILLAGE.test)[0]
    found = reasoner.explain(head, relation, tail)
    assert (found.is_known, found.rank, found.why_not) == (False, 1, "")
    assert str(found.reasons[0].rule) == RULE and found.reasons[0].evidence.confidence > 0.5
    known = next(fact for fact in VILLAGE.labels_of(VILLAGE.train) if fact[1] == "uncle")
    explained = reasoner.explain(*known)
    assert explained.is_known and explained.rank is not None and explained.probability is not None
    for reason in explained.reasons:
        for path in reason.paths:
            assert ("uncle", known[2]) not in [(edge.relation, edge.entity) for edge in path.edges[:1]]


def test_why_an_entity_is_not_reached(reasoner: Reasoner):
    """Two hops from a child one meets a part of the village only."""
    reached = {answer.entity for answer in reasoner.ask("child 0", "uncle", k=200)}
    far = next(entity for entity in VILLAGE.entities if entity not in reached | {"child 0"})
    found = reasoner.explain("child 0", "uncle", far)
    assert (found.rank, found.probability, found.reasons) == (None, None, ())
    assert found.lines[0] == found.why_not == "No path of at most 2 hops leads there."


def test_why_an_entity_is_behind_others(reasoner: Reasoner):
    """Everybody in reach has a sentence: the first has none, the others say behind whom they are."""
    answers = reasoner.ask("child 0", "uncle", k=10, only_new=True)
    names = [answer.entity for answer in answers]
    assert len(names) > 5 and reasoner.explain("child 0", "uncle", names[0]).why_not == ""
    sentences = {place: reasoner.explain("child 0", "uncle", names[place - 1]).why_not for place in (2, 3, 4, 5, 6)}
    assert sentences[2].startswith(f"Rank 2, behind {names[0]}.")
    assert sentences[3].startswith(f"Rank 3, behind {names[0]} and {names[1]}.")
    assert sentences[4].startswith(f"Rank 4, behind {names[0]}, {names[1]} and {names[2]}.")
    assert sentences[5].startswith(f"Rank 5, behind {names[0]}, {names[1]}, {names[2]} and 1 other.")
    assert sentences[6].startswith(f"Rank 6, behind {names[0]}, {names[1]}, {names[2]} and 2 others.")


def test_why_an_entity_without_a_rule_that_holds_is_behind(reasoner: Reasoner):
    """Nobody is the uncle of a child because a child knows them who is known to somebody: such paths say nothing."""
    for answer in reversed(reasoner.ask("child 0", "uncle", k=200, only_new=True)):
        found = reasoner.explain("child 0", "uncle", answer.entity)
        never = not any(group.evidence.holds for group in found.reasons)
        assert ("No rule behind its paths ever holds in the graph." in found.why_not) == (never and found.rank != 1)
        if never:
            assert "No rule behind these paths ever holds in the graph." in repr(found)
            return
    raise AssertionError("every path is of a rule that holds somewhere")


@pytest.mark.parametrize("is_reached", [True, False])
def test_a_fact_that_would_make_it_an_answer(reasoner: Reasoner, is_reached: bool):
    """A man becomes an uncle if he is a brother of the mother, or if another mother is. It is named because it was tried."""
    answers = {answer.entity: answer.rank for answer in reasoner.ask("child 0", "uncle", k=200)}
    man = [f"man {number}" for number in range(16) if (answers.get(f"man {number}", 0) > 10) == is_reached]
    man = [name for name in man if is_reached or name not in answers]
    found = reasoner.explain("child 0", "uncle", man[-1])
    missing = found.missing_fact
    assert (found.rank is not None) == is_reached and missing is not None and str(missing.rule) == RULE
    assert missing.relation in ("brother", "mother") and str(missing) in repr(found)
    more = reasoner.with_facts([(missing.head_key, missing.relation, missing.tail_key)])
    after = more.explain("child 0", "uncle", man[-1])
    assert after.rank == missing.rank <= 3 < (found.rank or 1000)
    assert str(after.reasons[0].rule) == RULE and after.missing_fact is None
    assert found.to_dict()["missing_fact"] == missing.to_dict()


def test_rules(reasoner: Reasoner):
    used = reasoner.rules("uncle", k=5)
    assert str(used[0].rule) == RULE and used[0].weight > 0.5
    assert [rule.strength for rule in used] == sorted((rule.strength for rule in used), reverse=True)
    assert all(rule.evidence.holds for rule in used)
    assert str(reasoner.rules("uncle⁻¹", k=1)[0].rule) == "uncle(Y,X) ⇐ brother(A,X), mother(Y,A)"


def test_completion(reasoner: Reasoner, tmp_path: Path):
    found = reasoner.complete(tmp_path / "new.tsv", relations=["uncle"], above=0.3)
    table = pl.read_csv(tmp_path / "new.tsv", separator="\t", quote_char=None)
    proposed = set(table.select("head", "relation", "tail").rows())
    assert len(table) == found.facts and not proposed & {*VILLAGE.labels_of(VILLAGE.train)}
    known = {head for head, relation, _ in VILLAGE.labels_of(VILLAGE.train) if relation == "uncle"}
    hidden = {fact for fact in VILLAGE.labels_of(VILLAGE.test) if fact[0] in known}
    assert len(proposed & hidden) >= 0.8 * len(hidden)
    for head, tail, probability, path in table.select("head", "tail", "probability", "path").rows():
        assert probability >= 0.3 and path.startswith((f"{head} —", f"{head} ←")) and path.endswith(f" {tail}")


def test_comparison_with_a_walker(propagation_run: Path, tmp_path: Path):
    short = settings_of(ALONE | {"walker.epochs": 1, "walker.learning_rate": 1e-9})
    walker = train_walker(VILLAGE, short, out=tmp_path / "run").path
    found = api.compare(walker, propagation_run)
    assert found.differences["mrr"].first == pytest.approx(api.evaluate(walker)["policy"].tails.mrr)
    assert found.differences["mrr"].second == pytest.approx(api.evaluate(propagation_run)["scorer"].tails.mrr)
    assert found.num_won > 0 and all(example.second_path is not None for example in found.won)


def test_facts_are_added(reasoner: Reasoner):
    """A child gets another mother, and with her uncles."""
    more = reasoner.with_facts([("child 0", "mother", "mother 5"), ("child 0", "uncle", "man 15")])
    after = {answer.entity: answer for answer in more.ask("child 0", "uncle", k=200)}
    for uncle in (tail for head, link, tail in VILLAGE.labels_of(VILLAGE.facts) if (head, link) == ("mother 5", "brother")):
        assert f"child 0 —mother→ mother 5 —brother→ {uncle}" in [str(path) for path in after[uncle].paths]
    assert after["man 15"].is_known and len(more.dataset.facts) == len(VILLAGE.facts) + 2
