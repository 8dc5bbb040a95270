"""The planted graph, and the comparison of proposals at the same number."""

import collections
from pathlib import Path

import numpy as np
import pytest
from benchmarks.completing import COMPLETE, COMPLEX, RULE, Ranked
from benchmarks.planted import CONCLUDED, RULES, csv, planted, write_split

from benchmarks import completing
from hopwalk import api
from hopwalk.reasoning.rules import Rule, RuleCounter
from tests.support.helpers import dataset_of
from tests.support.villages import propagation_of
from tests.support.villages import settings_of as settings_of_village

DRUGS = Path(__file__).parents[1] / "support" / "drugs.csv"


def test_rules_hold_as_often_as_planted():
    """Of the facts that a rule concludes, a fifth is held out; others conclude some of them too, and noise is added."""
    graph = planted(400, seed=1)
    whole = dataset_of(graph.train + graph.valid + graph.test)
    assert 5_000 < len(whole.facts) < 8_000
    counter = RuleCounter(whole.facts, whole)
    for rule in RULES:
        found = counter.count(Rule(rule.head, rule.body)).confidence
        assert rule.confidence - 0.05 < found < rule.confidence + 0.2, rule
    held_out = collections.Counter(relation for _, relation, _ in graph.valid + graph.test)
    assert {*held_out} == {*CONCLUDED} and abs(len(graph.valid) - len(graph.test)) <= 1
    concluded = sum(relation in CONCLUDED for _, relation, _ in graph.train) + held_out.total()
    assert held_out.total() == pytest.approx(0.2 * concluded, abs=2)


def test_the_table_of_the_tests_is_the_short_form():
    graph = planted(60)
    assert csv(graph) == DRUGS.read_text(encoding="utf-8")
    assert csv(planted(60, seed=1)) != csv(graph)
    named = {entity for head, _, tail in graph.valid + graph.test for entity in (head, tail)}
    assert named <= {entity for head, _, tail in graph.train for entity in (head, tail)}


def test_proposals_of_a_rule_by_hand(tmp_path: Path):
    """X has two walks to Y and one to Z; that it treats Z is known."""
    acting = [("X", "inhibits", "A"), ("X", "inhibits", "B"), ("W", "inhibits", "B"), ("X", "may_treat", "Z")]
    data = dataset_of([*acting, ("A", "raised_in", "Y"), ("B", "raised_in", "Y"), ("B", "raised_in", "Z")])
    rule = Rule("may_treat", (("inhibits", False), ("raised_in", False)))
    known = data.packing.pack_all(data.facts)
    keys, walks = completing.rule_proposals(rule, data, known, None)
    found = data.labels_of(data.packing.unpack(keys))
    assert (found[0], walks.tolist()) == (("X", "may_treat", "Y"), [2, 1, 1])
    assert {*found[1:]} == {("W", "may_treat", "Y"), ("W", "may_treat", "Z")}
    keys, _ = completing.rule_proposals(rule, data, known, [data.entities.id("W")])
    assert len(keys) == 2


def test_methods_are_compared_at_the_same_number_of_proposals():
    packing = dataset_of([("a", "r", "b"), ("b", "s", "c"), ("c", "r", "d")]).packing
    columns = ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 1], [1, 2, 3, 1, 2, 3])
    keys = packing.pack(*(np.array(column, dtype=np.int32) for column in columns))
    truth = keys[[1, 3]]
    lists = {RULE: Ranked(keys[[0, 2, 3]]), COMPLETE: Ranked(keys[[1, 0, 3, 5, 2]]), COMPLEX: Ranked(keys[[4, 5]])}
    found = completing.compared(lists, truth, packing)
    assert found["proposals"] == 3  # one of r, two of s
    right = {method: (row["right"], row["right_of_most_likely"]) for method, row in found["methods"].items()}
    assert right == {RULE: (1, 1), COMPLETE: (2, 2), COMPLEX: (0, 0)}
    assert found["methods"][COMPLETE]["curve"][0] == [1, 1.0, 0.5]
    assert completing.chart("x", found).startswith("<svg")
    titles, cells = completing.table({"x": found | {"relations": 2, "test_facts": 2}})
    assert len(titles) == len(cells) and cells[-3:] == ["2", "1", "0"]


def test_complete_finds_more_than_one_rule_and_an_embedding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """On the short form, with a tiny model."""

    short = {
        "propagation": propagation_of(queries=6000, layers=3),
        "complex": settings_of_village({"scorer.epochs": 60, "scorer.dimension": 32}),
    }
    monkeypatch.setattr(completing, "planted", lambda: planted(120))
    monkeypatch.setattr(completing, "fit_budget", lambda dataset, settings, minutes: settings)
    monkeypatch.setattr(api, "settings_for", lambda _, overrides, dataset: short[overrides[0].removeprefix("scorer.model=")])
    found = completing.measure("planted", tmp_path, 1.0)
    right = {method: row["right"] for method, row in found["methods"].items()}
    assert right[COMPLETE] > max(right[RULE], right[COMPLEX]), right
    assert found["relations"] == 3 and {*found["rules"]} == {*CONCLUDED}


def test_the_graph_is_written_as_a_folder(tmp_path: Path):
    graph = planted(20)
    write_split(graph, tmp_path / "graph")
    data = api.load_dataset(tmp_path / "graph")
    assert (len(data.train), len(data.valid), len(data.test)) == (len(graph.train), len(graph.valid), len(graph.test))
