"""The walks behind a score: the planted rule is found, and without its edges the score falls."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks import plain_propagation
from hopwalk import api
from hopwalk.data.triples import Triples
from hopwalk.learning.scorer import ScoredPath
from hopwalk.propagation import model as model_module
from hopwalk.propagation.explaining import Beam, make_beam
from hopwalk.propagation.graph import RunGraph
from hopwalk.propagation.model import Engine, Propagation
from hopwalk.propagation.parameters import Tasks
from hopwalk.propagation.paths import steps_of, with_inverses
from hopwalk.propagation.queries import plain_tasks
from hopwalk.propagation.scorer import PropagationScorer
from tests.propagation.test_kernels import VARIANTS, E, graph_of, model_of, settings_of
from tests.propagation.test_scorer import CHAIN, scorer_of
from tests.support.villages import VILLAGE, propagation_of

Path = tuple[tuple[int, int], ...]


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> PropagationScorer:
    run = api.train_scorer(VILLAGE, propagation_of(), out=tmp_path_factory.mktemp("paths") / "run")
    loaded = api.load_scorer(run.path)
    assert isinstance(loaded, PropagationScorer)
    return loaded


def facts_of(scorer: PropagationScorer, head: int, paths: list[ScoredPath]) -> list[tuple[int, int, int]]:
    """The facts along paths, in the direction of the data."""
    found = []
    for path in paths:
        source = head
        for relation, entity in path.steps:
            is_inverse = relation >= scorer.relation_ids.num_relations
            plain = relation - scorer.relation_ids.num_relations if is_inverse else relation
            found.append((entity, plain, source) if is_inverse else (source, plain, entity))
            source = entity
    return found


def score_of(scorer: PropagationScorer, head: int, relation: int, entity: int, hidden: list[tuple[int, int, int]]) -> float:
    ids = np.array([head], dtype=np.int32), np.array([relation], dtype=np.int32)
    return float(scorer.score_reached(*ids, [Triples.of(hidden)]).dense(scorer.num_entities)[0, entity])


def test_the_planted_rule_is_the_reason(scorer: PropagationScorer):
    names = [VILLAGE.relations[id_] for id_ in range(len(VILLAGE.relations))]
    rules = []
    for head, relation, tail in VILLAGE.test.array()[:12].tolist():
        (paths,) = scorer.paths_behind(head, relation, [tail])
        assert paths[0].drop == max(path.drop for path in paths) > 0
        rules.append([names[step] if step < len(names) else f"{names[step - len(names)]}⁻¹" for step, _ in paths[0].steps])
    assert rules.count(["mother", "brother"]) >= 10


def test_paths_are_simple_walks_over_facts_that_they_do_not_share(scorer: PropagationScorer):
    known = {tuple(fact) for fact in VILLAGE.facts.array().tolist()}
    for head, relation, tail in VILLAGE.test.array()[:12].tolist():
        entities = [tail, *range(0, 60, 7)]
        for entity, paths in zip(entities, scorer.paths_behind(head, relation, entities), strict=True):
            facts = facts_of(scorer, head, paths)
            assert len({*facts}) == len(facts) and known.issuperset(facts)
            for path in paths:
                passed = [head, *(entity for _, entity in path.steps)]
                assert len({*passed}) == len(passed) and passed[-1] == entity


def test_drops_and_shares_add_up_to_the_fall_without_all_paths(scorer: PropagationScorer):
    num_several = 0
    for head, relation, tail in VILLAGE.test.array()[:12].tolist():
        (paths,) = scorer.paths_behind(head, relation, [tail])
        score, left = (score_of(scorer, head, relation, tail, facts) for facts in ([], facts_of(scorer, head, paths)))
        unreached = float(scorer.model.unreached[relation].detach())
        assert sum(path.drop for path in paths) == pytest.approx(score - left, abs=1e-4)
        assert sum(path.share for path in paths) == pytest.approx(min((score - left) / (score - unreached), 1.0), abs=1e-4)
        num_several += len(paths) > 1
    assert num_several > 3


def test_answers_together_are_answers_one_at_a_time(scorer: PropagationScorer):
    head, relation, _ = VILLAGE.test.array()[0].tolist()
    entities = [*range(20)]
    together = scorer.paths_behind(head, relation, entities, num_paths=2)
    assert together == [scorer.paths_behind(head, relation, [entity], num_paths=2)[0] for entity in entities]
    assert max(map(len, together)) == 2


def test_a_hidden_fact_is_on_no_path(scorer: PropagationScorer):
    num_seen = 0
    for head, relation, tail in VILLAGE.facts.array()[:40].tolist():
        (seen,) = scorer.paths_behind(head, relation, [tail])
        num_seen += (head, relation, tail) in facts_of(scorer, head, seen)
        (paths,) = scorer.paths_behind(head, relation, [tail], hidden=Triples.of([(head, relation, tail)]))
        assert (head, relation, tail) not in facts_of(scorer, head, paths)
    assert num_seen > 10


def test_the_only_path_carries_everything():
    """0 → 1 → 2 → 3 with two layers: without its path, 2 is out of reach; 3 is anyway, and the head has no path."""
    scorer = scorer_of(CHAIN, 4)
    near, far, out, head = scorer.paths_behind(0, 0, [1, 2, 3, 0])
    assert [path.steps for path in near] == [((0, 1),)] and [path.steps for path in far] == [((0, 1), (1, 2))]
    unreached = float(scorer.model.unreached[0].detach())
    for entity, (path,) in ((1, near), (2, far)):
        total = score_of(scorer, 0, 0, entity, []) - unreached
        assert path.drop == pytest.approx(total, abs=1e-5) and path.share == pytest.approx(1.0 if total > 0 else 0.0)
    assert out == [] and head == []
    assert scorer.paths_behind(0, 0, [1, 2], hidden=CHAIN) == [[], []] and scorer.paths_behind(0, 0, []) == []


def test_a_path_is_taken_away_in_both_directions(scorer: PropagationScorer):
    graph = scorer.engine.graph
    edges = with_inverses(graph, scorer.relation_ids, np.array([0]))
    sources = np.searchsorted(graph.run_offsets, np.searchsorted(graph.run_starts, edges, side="right") - 1, side="right") - 1
    assert len(edges) == 2 and sources.tolist() == graph.tails[edges][::-1].tolist()


def derivatives(
    model: Propagation, graph: RunGraph, tasks: Tasks, entity: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Tensor], list[Any]]:
    """The derivative of a score by a weight of 1 on every message of every layer, by autograd, and the edges themselves."""
    weights, edges, messages = [], [], plain_propagation._messages

    def weighted(x: Tensor, layer_edges: plain_propagation.Edges, *arguments: Any, **flags: Any) -> Tensor:
        weights.append(torch.ones(len(layer_edges.targets), dtype=x.dtype, requires_grad=True))
        edges.append(layer_edges)
        return messages(x, layer_edges, *arguments, **flags) * weights[-1][:, None]

    with monkeypatch.context() as patch:
        patch.setattr(plain_propagation, "_messages", weighted)
        plain_propagation.scores(model, graph, tasks, torch.float64)[0][0, entity].backward()
    return [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights], edges


def simple_paths(values: list[Tensor], edges: list[Any], node: int, least: float) -> set[Path]:
    """All simple paths of (relation, node) to a node over edges of a least derivative, each in a later layer than the last."""
    partial: dict[Path, int] = {(): 0}
    for layer, derivative in enumerate(values):
        before = list(partial.items())
        columns = [column.tolist() for column in (edges[layer].sources, edges[layer].relations, edges[layer].targets)]
        for (source, relation, target), value in zip(zip(*columns, strict=True), derivative.tolist(), strict=True):
            for steps, end in before:
                is_passed = target in (0, *(passed for _, passed in steps))
                if value > least and end == source and not is_passed:
                    partial.setdefault((*steps, (relation, target)), target)
    return {steps for steps, end in partial.items() if end == node and steps}


@pytest.mark.parametrize("name", VARIANTS)
def test_derivatives_and_paths_are_those_of_the_plain_model(name: str, monkeypatch: pytest.MonkeyPatch):
    settings, graph = settings_of(name), graph_of()
    model, beams = model_of(settings), []

    def kept(*sizes: int) -> Beam:
        beams.append(make_beam(*sizes))
        return beams[-1]

    monkeypatch.setattr(model_module, "make_beam", kept)
    engine = Engine(graph, settings, 1)
    num_checked = 0
    for head in range(0, 36, 2):
        tasks = plain_tasks(np.array([head]), np.array([1]), [np.array([2, 5])])
        scores, is_reached = plain_propagation.scores(model, graph, tasks, torch.float64)
        arrays = model.arrays(tasks.relations)
        for entity in is_reached[0].nonzero()[:, 0].tolist()[:10]:
            found = engine.explain(tasks, *arrays, np.array([entity], dtype=np.int32), 500)
            values, edges = derivatives(model, graph, tasks, entity, monkeypatch)
            expected = torch.cat(values).numpy()
            assert found.scores[0] == pytest.approx(scores[0, entity].item(), abs=2e-5)
            paths = {steps_of(graph, path[path >= 0]) for path in found.paths[0] if path[0] >= 0}
            entities = _entities(graph, tasks, edges)
            sure, possible = (
                {
                    tuple((relation, entities[node]) for relation, node in steps)
                    for steps in simple_paths(values, edges, entities.index(entity), least)
                }
                for least in (1e-4, -1e-4)
            )
            if sure:  # else signs do not matter
                assert np.allclose(beams[-1].values[: len(expected)], expected, atol=2e-5)
                assert sure <= paths <= possible
            assert bool(paths) == (entity != head)
            num_checked += len(sure) > 0
    assert num_checked > 3
    assert engine.explain(tasks, *arrays, np.array([E - 1], dtype=np.int32), 2).paths.shape == (1, 2, settings.layers)


def _entities(graph: RunGraph, tasks: Tasks, edges: list[Any]) -> list[int]:
    """The entities of the plain model's nodes, in the order in which they were reached."""
    found = [int(tasks.heads[0])]
    starts = graph.run_starts[graph.run_offsets]
    for layer in edges:
        for source in dict.fromkeys(layer.sources.tolist()):
            seen = [edge for edge in range(starts[found[source]], starts[found[source] + 1]) if edge not in tasks.hidden]
            found += [entity for entity in dict.fromkeys(graph.tails[seen].tolist()) if entity not in found]
    return found


def test_a_small_beam_has_the_best_of_all_paths():
    settings, graph = settings_of("sum"), graph_of(60)
    model = model_of(settings)
    engine, tasks = Engine(graph, settings, 1), plain_tasks(np.array([0]), np.array([1]))
    arrays = model.arrays(tasks.relations)
    for entity in (5, 11, 17):
        entities = np.array([entity], dtype=np.int32)
        every = engine.explain(tasks, *arrays, entities, 500).paths[0]
        few = engine.explain(tasks, *arrays, entities, 3).paths[0]
        assert np.array_equal(few[:1], every[:1])
