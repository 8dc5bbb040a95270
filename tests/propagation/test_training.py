"""Propagation as a scorer: it learns a planted rule, resumes to the same bits, and stands wherever a scorer stands."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import hopwalk
from hopwalk import api
from hopwalk.config.settings import PropagationSettings, changed
from hopwalk.data.triples import Triples
from hopwalk.errors import DataError
from hopwalk.learning.callbacks import Callback, TrainingPlan
from hopwalk.learning.run import Run
from hopwalk.propagation.budget import fit_budget
from hopwalk.propagation.forecast import memory_of_training
from hopwalk.propagation.graph import build_run_graph
from hopwalk.propagation.queries import QuerySampler
from hopwalk.propagation.scorer import PropagationScorer
from tests.support.helpers import dataset_of
from tests.support.stopping import StopAt, Stopped, result_of
from tests.support.villages import VILLAGE, propagation_of, settings_of, train_walker


@pytest.fixture
def trained(propagation_run: Path) -> Path:
    return propagation_run


def test_it_learns_a_rule_of_two_hops(trained: Path):
    """Uncles are brothers of the mother: two hops, and nothing else tells them."""
    found = api.evaluate(trained)["scorer"].tails
    assert found.mrr > 0.9


def test_scores_of_triples_are_those_of_all_tails(trained: Path):
    scorer = hopwalk.load_scorer(trained)
    heads, relations, tails = torch.tensor([3, 5, 3, 0]), torch.tensor([2, 0, 2, 5]), torch.tensor([1, 7, 9, 2])
    every = scorer.score_all_tails(heads, relations)
    # Not the same bits: a query asked twice is walked once, and matrix products round by the number of their rows.
    torch.testing.assert_close(scorer.score_triples(heads, relations, tails), every[torch.arange(4), tails], rtol=1e-5, atol=1e-6)
    probabilities = scorer.probability_of_all_tails(heads, relations)
    assert bool(((probabilities >= 0) & (probabilities <= 1)).all())


def test_a_killed_training_resumes_to_the_same_bits(tmp_path: Path, trained: Path, checkpoints: None):
    with pytest.raises(Stopped):
        api.train_scorer(VILLAGE, propagation_of(), out=tmp_path / "run", callbacks=[StopAt(3, 2)])
    run = api.train_scorer(VILLAGE, propagation_of(), out=tmp_path / "run", resume=True)
    assert result_of(run) == result_of(Run.open(trained))


def test_it_rewards_a_walker(tmp_path: Path, trained: Path):
    run = train_walker(VILLAGE, settings_of({"walker.epochs": 1}), out=tmp_path / "run", scorer=trained)
    assert run.is_finished and {*api.evaluate(run.path)} == {"policy"}
    assert "propagation, in the folder `scorer`" in (run.path / "card.md").read_text()


def test_it_is_a_member_of_an_ensemble(tmp_path: Path, trained: Path, village_run: Path):
    both = api.combine_scorers([trained, village_run / "scorer"], out=tmp_path / "both")
    assert api.evaluate(both.path)["scorer"].tails.mrr > 0.5


def test_without_training_queries(tmp_path: Path):
    empty = dataset_of([("a", "r", "b")])
    with pytest.raises(DataError, match="no training queries"):
        api.train_scorer(replace(empty, train=empty.train[:0]), propagation_of(), out=tmp_path / "run")


# Queries


def sampler_of(**values: object) -> tuple[QuerySampler, object]:
    dataset = dataset_of([("a", "r", "b"), ("a", "s", "b"), ("a", "r", "c"), ("b", "r", "c")])
    graph = build_run_graph(dataset.facts, 3, 2)
    settings = PropagationSettings.model_validate(values)
    return QuerySampler(graph, dataset, settings), graph


@pytest.mark.parametrize(("hiding", "expected"), [("fact", 2), ("between", 4)])
def test_hidden_edges_of_a_fact(hiding: str, expected: int):
    """(a, r, b) and its inverse; with "between" also (a, s, b) and its inverse."""
    sampler, _ = sampler_of(hiding=hiding)
    tasks = sampler.batch(0, len(sampler))
    for query in range(len(sampler)):
        targets = tasks.targets[tasks.target_offsets[query] : tasks.target_offsets[query + 1]]
        if (tasks.heads[query], tasks.relations[query], *targets) == (0, 0, 1):
            hidden = tasks.hidden[tasks.hidden_offsets[query] : tasks.hidden_offsets[query + 1]]
            assert len(hidden) == expected and sorted(hidden) == hidden.tolist()
            return
    raise AssertionError("the fact is not among the training queries")


def test_all_known_answers_of_a_query_are_asked_together():
    sampler, _ = sampler_of(hiding="query")
    tasks = sampler.batch(0, len(sampler))
    of_a = [
        tasks.targets[tasks.target_offsets[query] : tasks.target_offsets[query + 1]].tolist()
        for query in range(len(sampler))
        if (tasks.heads[query], tasks.relations[query]) == (0, 0)
    ]
    assert of_a == [[1, 2], [1, 2]]


def test_the_head_of_a_fact_is_held_out():
    """a has (r, b), (r, c), (s, b) and (t, d), and training asks r and s: half of the queries miss r and s, all see (a, t, d)."""
    dataset = dataset_of([("a", "r", "b"), ("a", "s", "b"), ("a", "r", "c"), ("b", "r", "c"), ("a", "t", "d"), ("d", "t", "a")])
    dataset = replace(dataset, train=dataset.facts[dataset.facts.relations < 2])
    graph = build_run_graph(dataset.facts, 4, 3)
    sources = np.repeat(np.arange(4), np.diff(graph.run_starts[graph.run_offsets]))
    relations = np.repeat(graph.run_relations, np.diff(graph.run_starts))
    edges = np.stack([sources, relations, graph.tails], axis=1)
    sampler = QuerySampler(graph, dataset, PropagationSettings(hiding="head"))
    found: dict[tuple[int, ...], set[frozenset[tuple[int, ...]]]] = {}
    for number in range(8):
        tasks = sampler.batch(number * len(sampler), len(sampler))
        for query in range(len(sampler)):
            targets, hidden = (
                values[offsets[query] : offsets[query + 1]].tolist()
                for values, offsets in ((tasks.targets, tasks.target_offsets), (tasks.hidden, tasks.hidden_offsets))
            )
            assert hidden == sorted(hidden)
            key = int(tasks.heads[query]), int(tasks.relations[query]), *targets
            found.setdefault(key, set()).add(frozenset(map(tuple, edges[hidden].tolist())))
    a, b, c, r, s, r_inverse, s_inverse = 0, 1, 2, 0, 1, 3, 4
    of_r = frozenset({(a, r, b), (b, r_inverse, a), (a, r, c), (c, r_inverse, a)})
    of_s = frozenset({(a, s, b), (b, s_inverse, a)})
    of_b = frozenset({(b, r, c), (c, r_inverse, b)})
    assert found == {
        (a, r, b, c): {of_r, of_r | of_s},  # all known answers are hidden, so they are asked together
        (a, s, b): {of_s, of_r | of_s},
        (b, r, c): {of_b},
        (b, r_inverse, a): {of_r, of_r | of_s},
        (c, r_inverse, a): {of_r, of_r | of_s},  # a alone is asked for, and sees that c is a tail of (b, r)
        (b, s_inverse, a): {of_s, of_r | of_s},
        (c, r_inverse, b): {of_b},
    }


def test_every_query_is_asked_once_in_a_pass():
    sampler, _ = sampler_of()
    passes = [sampler.batch(first, 4) for first in range(0, 2 * len(sampler), 4)]
    asked = [
        (int(tasks.heads[row]), int(tasks.relations[row]), int(tasks.targets[tasks.target_offsets[row]]))
        for tasks in passes
        for row in range(4)
    ]
    first, second = asked[: len(sampler)], asked[len(sampler) :]
    assert len({*first}) == len(sampler) and sorted(first) == sorted(second) and first != second
    again = sampler_of()[0].batch(4, 4)
    assert np.array_equal(again.heads, passes[1].heads)


def test_a_budget_of_time_becomes_a_number_of_queries():
    """The number depends on the machine; that it grows with the time does not."""
    short, long = (fit_budget(VILLAGE, propagation_of(), minutes).propagation.queries for minutes in (0.2, 2.0))
    assert 1 <= short < long


def test_trained_on_dev_its_graph_has_the_dev_facts(tmp_path: Path):
    run = api.train_scorer(VILLAGE, changed(propagation_of(queries=50), {"scorer.train_on_valid": True}), out=tmp_path / "run")
    scorer = api.load_scorer(run.path)
    assert isinstance(scorer, PropagationScorer)
    assert len(scorer.engine.graph.tails) == 2 * (len(VILLAGE.facts) + len(VILLAGE.valid))


def test_known_answers_are_the_same_from_the_graph_and_from_an_index(monkeypatch: pytest.MonkeyPatch):
    """The graph has them already if it holds all facts; the order of a large pass is computed instead of kept."""
    graph = build_run_graph(VILLAGE.facts, len(VILLAGE.entities), len(VILLAGE.relations))
    settings = PropagationSettings(num_targets=3)
    own_facts = replace(VILLAGE, train=VILLAGE.train[:])
    first, second = (QuerySampler(graph, dataset, settings).batch(5, 40) for dataset in (VILLAGE, own_facts))
    assert all(np.array_equal(getattr(first, name), getattr(second, name)) for name in first._fields)
    assert len(first.filtered)
    monkeypatch.setattr("hopwalk.propagation.queries.MOST_PERMUTED", 10)
    sampler = QuerySampler(graph, VILLAGE, settings)
    tasks = sampler.batch(0, 2 * len(sampler))
    last = tasks.targets[tasks.target_offsets[1:] - 1]
    asked = np.stack([tasks.heads, tasks.relations, last], axis=1)
    expected = VILLAGE.train.array()
    both = np.concatenate([expected, np.stack([expected[:, 2], expected[:, 1] + len(VILLAGE.relations), expected[:, 0]], axis=1)])
    for part in (asked[: len(sampler)], asked[len(sampler) :]):
        assert np.array_equal(np.unique(part, axis=0), np.unique(both, axis=0))
    assert not np.array_equal(asked[: len(sampler)], asked[len(sampler) :])


# Forecast


def test_a_forecast_changes_nothing(tmp_path: Path):
    """Training after a forecast gives the same bits as training without one."""
    plans: list[TrainingPlan] = []

    def make_callbacks(plan: TrainingPlan) -> list[Callback]:
        plans.append(plan)
        return []

    forecast = api.train_scorer(VILLAGE, propagation_of(queries=160), out=tmp_path / "a", make_callbacks=make_callbacks)
    without = api.train_scorer(VILLAGE, propagation_of(queries=160), out=tmp_path / "b")
    assert result_of(forecast) == result_of(without)
    (plan,) = plans
    assert plan.forecast is not None and plan.forecast.seconds_of_epoch > 0 and plan.forecast.queries_at_once == 16
    assert (plan.kind, plan.unit, plan.epochs) == ("propagation", "part", 3)


def test_the_memory_forecast_grows_with_graph_and_batch():
    settings = PropagationSettings(layers=2, width=8, attention_width=4)

    def memory(num_facts: int, batch_size: int, num_known: int = 0) -> int:
        facts = Triples.of([(number, 0, number + 1) for number in range(num_facts)])
        scorer = PropagationScorer(num_facts + 1, 2, settings, facts)
        return memory_of_training(scorer.model, scorer.engine, batch_size, num_known)

    assert memory(2000, 4) - memory(1000, 4) == pytest.approx(1000 * (2 * (4 + 8 + 4) + 8 + 4 + 4), rel=0.01)
    assert memory(1000, 8) - memory(1000, 4) == memory(1000, 4) - memory(1000, 0)
    assert memory(1000, 4, num_known=10) == memory(1000, 4) + 80
