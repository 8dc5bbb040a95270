"""Questions in words: names that are nearly right, answers with paths, what is known and what is predicted."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hopwalk import api
from hopwalk.config.settings import changed
from hopwalk.errors import DataError, RunError, UnknownNameError
from hopwalk.reasoning.asking import ask_many, directed_relation_id, query_ids
from hopwalk.reasoning.reasoner import LoadedWalker
from hopwalk.reasoning.values import Answer, Edge
from hopwalk.reasoning.values import Path as Walk
from tests.support.commands import command
from tests.support.helpers import dataset_of
from tests.support.villages import ALONE, VILLAGE, settings_of


@pytest.fixture(scope="module")
def folder(uncles_run: Path) -> Path:
    return uncles_run


@pytest.fixture(scope="module")
def walker(folder: Path) -> LoadedWalker:
    return api.load(folder)


@pytest.fixture(scope="module")
def with_scorer(village_run: Path) -> LoadedWalker:
    return api.load(village_run)


def test_a_predicted_answer_has_its_reason(walker: LoadedWalker):
    head, relation, tail = VILLAGE.labels_of(VILLAGE.test)[0]
    answers = walker.ask(head, relation, k=5)
    assert [answer.rank for answer in answers] == [1, 2, 3, 4, 5]
    scores = [answer.score for answer in answers]
    assert scores == sorted(scores, reverse=True)
    (found,) = [answer for answer in answers if answer.entity == tail]
    assert not found.is_known and found.probability is None
    assert [edge.relation for edge in found.paths[0].edges] == ["mother", "brother"]
    assert found.paths[0].head == head and found.paths[0].edges[-1].entity == tail


def test_facts_of_the_graph_are_marked_as_known(walker: LoadedWalker):
    known = {tail for head, relation, tail in VILLAGE.labels_of(VILLAGE.train) if (head, relation) == ("child 0", "mother")}
    answers = walker.ask("child 0", "mother", k=200)
    assert {answer.entity for answer in answers if answer.is_known} == known


def test_only_what_is_new(walker: LoadedWalker, with_scorer: LoadedWalker):
    for trained in (walker, with_scorer):
        answers = trained.ask("child 0", "mother", k=200, only_new=True)
        assert answers and not any(answer.is_known for answer in answers)


def test_paths_that_differ_in_their_stays_are_one(walker: LoadedWalker):
    for answer in walker.ask("child 0", "mother", k=20, num_paths=10):
        assert len({path.edges for path in answer.paths}) == len(answer.paths)


def test_the_inverse_can_be_asked(walker: LoadedWalker):
    answers = walker.ask("mother 0", "mother⁻¹", k=50)
    assert {answer.entity for answer in answers if answer.is_known} == {"child 0", "child 16"}
    assert any(str(path) == "mother 0 ←mother— child 0" for answer in answers for path in answer.paths)


def test_many_at_once_as_one_at_a_time(walker: LoadedWalker, with_scorer: LoadedWalker, monkeypatch: pytest.MonkeyPatch):
    asked = list(dict.fromkeys((head, relation) for head, relation, _ in VILLAGE.labels_of(VILLAGE.train)[::12]))
    asked += [(head, "uncle⁻¹") for head, _ in asked[:5]]
    monkeypatch.setattr("hopwalk.walker.decoding.WALKS_AT_ONCE", 32 * 7)  # several parts, the last one smaller
    for trained, only_new in [(walker, False), (walker, True), (with_scorer, False), (with_scorer, True)]:
        together = ask_many(trained, asked, k=5, num_paths=2, only_new=only_new)
        for (head, relation), answers in zip(asked, together, strict=True):
            alone = trained.ask(head, relation, k=5, num_paths=2, only_new=only_new)
            assert [answer.entity for answer in answers] == [answer.entity for answer in alone]
            assert [answer.paths[:1] != () for answer in answers] == [answer.paths[:1] != () for answer in alone]
            assert [answer.score for answer in answers] == pytest.approx([answer.score for answer in alone], abs=1e-4)
    assert ask_many(walker, []) == []


def test_many_are_ranked_by_the_blend(with_scorer: LoadedWalker):
    """The answers are those of scoring every entity."""
    head, relation = "child 3", "uncle"
    head_ids, relation_ids = (np.array([id_], dtype=np.int32) for id_ in query_ids(with_scorer, head, relation))
    heavy = replace(with_scorer, blend_weight=2.0)
    scores = heavy.decoder.scores(head_ids, relation_ids, [2.0])["blend 2"][0]
    new = heavy.ask(head, relation, k=len(VILLAGE.entities), only_new=True)
    for answer in new:
        assert answer.score == pytest.approx(float(scores[VILLAGE.entities.id(answer.entity)]), abs=1e-4)
    assert len(new) == len(VILLAGE.entities) - len(heavy.walker.known.answers(head_ids, relation_ids)[1])
    assert [answer.entity for answer in heavy.ask(head, relation, k=7, only_new=True)] == [one.entity for one in new[:7]]


def test_a_wrong_query_among_many(walker: LoadedWalker):
    with pytest.raises(UnknownNameError, match="there is no entity 'nobody at all'"):
        ask_many(walker, [("child 0", "uncle"), ("nobody at all", "uncle")])


def test_relations_and_their_inverses_are_found(walker: LoadedWalker):
    assert directed_relation_id(walker, "Uncle") == 3 and directed_relation_id(walker, "UNCLE⁻¹") == 7


def test_entities_without_a_path_are_guesses(with_scorer: LoadedWalker):
    answers = with_scorer.ask("child 0", "uncle", k=len(VILLAGE.entities))
    assert len(answers) == len(VILLAGE.entities)  # the scorer has an opinion of all
    assert all(answer.probability is not None and 0 <= answer.probability <= 1 for answer in answers)
    guesses = [answer for answer in answers if not answer.paths]
    assert all(answer.log_prob is None and "the scorer's guess" in str(answer) for answer in guesses)


def test_as_json(walker: LoadedWalker):
    answer = walker.ask("child 0", "uncle", k=1)[0].to_dict()
    assert json.loads(json.dumps(answer)) == answer
    assert 0 < answer["path_probability"] <= 1 and answer["paths"][0]["edges"]


def test_paths_in_one_line():
    path = Walk("steroid", (Edge("affects", "cell"), Edge("affects", "eicosanoid", is_inverse=True)), -1.0)
    assert str(path) == "steroid —affects→ cell ←affects— eicosanoid"
    assert str(Answer("eicosanoid", 1, 0.5, False, -1.0, None, (path,))) == f"1. eicosanoid (predicted): {path}"


# The command


def test_command(folder: Path, capsys: pytest.CaptureFixture[str]):
    printed = command(capsys, "ask", str(folder), "Child_0", "uncle", "-k", "3").out
    assert printed.startswith("child 0 —uncle→ ?") and printed.count("\n") == 4
    assert "child 0 —mother→ mother 0 —brother→" in printed
    answered = json.loads(command(capsys, "ask", str(folder), "mother 0", "mother", "--inverse", "--json").out)
    assert answered["relation"] == "mother⁻¹" and len(answered["answers"]) == 10
    several = command(capsys, "ask", str(folder), "child 0", "uncle", "-k", "1", "--paths", "4").out
    assert several.count("\n") > 2


def test_mistakes(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    told = command(capsys, "ask", str(folder), "nobody at all", "uncle", code=1).err
    assert told.startswith("error: there is no entity 'nobody at all'")
    assert "no such folder" in command(capsys, "ask", str(tmp_path / "none"), "a", "b", code=1).err
    scorer = api.train_scorer(VILLAGE, settings_of(), out=tmp_path / "scorer").path
    with pytest.raises(RunError, match="not a walker"):
        api.load(scorer)


# Why, and why not


def test_a_reason_has_its_rule(walker: LoadedWalker):
    head, relation, tail = VILLAGE.labels_of(VILLAGE.test)[0]
    found = walker.explain(head, relation, tail)
    assert not found.is_known and found.rank is not None and found.rank <= 3 and not found.why_not
    first = found.reasons[0]
    assert str(first.rule) == "uncle(X,Y) ⇐ mother(X,A), brother(A,Y)"
    assert first.evidence.confidence > 0.5
    assert found.to_dict()["reasons"][0]["support"] == first.evidence.support


def test_a_known_fact_is_not_its_own_reason(walker: LoadedWalker):
    head, relation, tail = next(fact for fact in VILLAGE.labels_of(VILLAGE.train) if fact[1] == "uncle")
    found = walker.explain(head, relation, tail)
    assert found.is_known and found.reasons
    edges = [(edge.relation, edge.entity) for reason in found.reasons for edge in reason.path.edges[:1]]
    assert ("uncle", tail) not in edges


def test_why_not(tmp_path: Path):
    """A chain of five, walked in two hops with a beam of one: too far, cut off, or outranked."""
    far = [
        ("a", "next", "b"),
        ("b", "next", "c"),
        ("c", "next", "d"),
        ("d", "next", "e"),
        ("a", "likes", "x"),
        ("x", "likes", "y"),
    ]
    settings = settings_of(ALONE | {"walk.beam": 1, "walker.epochs": 1})
    walker = api.load(api.train(dataset_of(far), settings, out=tmp_path / "run").path)
    assert walker.explain("a", "likes", "e").why_not == "no path of at most 2 hops leads there"
    assert "no path but the fact itself leads there" in walker.explain("a", "likes", "x").why_not
    lost = [walker.explain("a", "likes", tail) for tail in ("c", "y", "b")]
    outranked = [found for found in lost if found.why_not]
    assert outranked and all("outranked at hop" in found.why_not and found.reasons for found in outranked)
    narrow = changed(settings, {"graph.fan_out": 1})
    cut = api.load(api.train(dataset_of(far), narrow, out=tmp_path / "narrow").path)
    told = {cut.explain("a", "likes", tail).why_not for tail in ("c", "y")}
    assert any("cut by the fan-out limit of 1" in text for text in told)


def test_explain_command(folder: Path, capsys: pytest.CaptureFixture[str]):
    head, relation, tail = VILLAGE.labels_of(VILLAGE.test)[0]
    printed = command(capsys, "explain", str(folder), head, relation, tail).out
    assert printed.startswith(f"{head} —uncle→ {tail}: not a known fact")
    assert "uncle(X,Y) ⇐ mother(X,A), brother(A,Y): holds" in printed
    assert json.loads(command(capsys, "explain", str(folder), head, relation, tail, "--json").out)["tail"] == tail


# Rules


def test_the_planted_rule_is_used_most(walker: LoadedWalker):
    used = walker.rules("uncle", k=5)
    assert str(used[0].rule) == "uncle(X,Y) ⇐ mother(X,A), brother(A,Y)"
    assert used[0].weight > 0.5 and used[0].queries > 3 and used[0].evidence.confidence > 0.5
    assert [rule.weight for rule in used] == sorted((rule.weight for rule in used), reverse=True)
    assert used[0].examples[0].edges[0].relation == "mother"


def test_rules_of_relations_that_dev_does_not_ask(walker: LoadedWalker):
    assert walker.rules("mother", k=1)  # from training questions
    assert str(walker.rules("uncle⁻¹", k=1)[0].rule).startswith("uncle(Y,X) ⇐ ")
    with pytest.raises(DataError, match="no questions about 'mother'"):
        walker.rules("mother", split="valid")


def test_rules_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "rules.txt"
    command(capsys, "rules", str(folder), "uncle", "-k", "2", "--anyburl", str(target))
    first = target.read_text(encoding="utf-8").splitlines()[0].split("\t")
    assert first[3] == "uncle(X,Y) <= mother(X,A), brother(A,Y)"
    assert float(first[2]) == pytest.approx(int(first[1]) / int(first[0]), abs=1e-5)
    assert json.loads(command(capsys, "rules", str(folder), "uncle", "--json").out)[0]["questions"] > 3
    assert "there is no split 'all'" in command(capsys, "rules", str(folder), "uncle", "--split", "all", code=1).err
