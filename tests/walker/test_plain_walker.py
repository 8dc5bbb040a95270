"""The plain walker that ours is compared with does what the paper says; how fast it is is not tested."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from benchmarks.plain_walker import PlainSettings, PlainWalker

import hopwalk
from hopwalk.data.graph import build_graph
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Triples
from tests.support.helpers import FAMILY, dataset_of

SMALL = {"dimension": 8, "hops": 3, "rollouts": 50, "decode_batch_size": 4}


def walker_of(facts: Triples, num_entities: int, num_relations: int, reward=None, **settings) -> PlainWalker:
    torch.manual_seed(0)
    known_answers = KnownAnswers([facts], num_entities, num_relations)
    return PlainWalker(build_graph(facts, num_entities, num_relations), known_answers, PlainSettings(**SMALL | settings), reward)


def family_walker(reward=None, **settings) -> tuple[Triples, PlainWalker]:
    facts = dataset_of(FAMILY).facts  # ann bob cat dan eve; brother_of knows mother_of uncle_of
    return facts, walker_of(facts, 5, 4, reward, **settings)


def columns(facts: Triples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return facts.heads, facts.relations, facts.tails


@torch.no_grad()
def best_paths(walker: PlainWalker, facts: Triples, row: int, beam: int = 1000) -> dict[int, float]:
    """The log-probability of the best path to every entity, path by path; of those that extend the `beam` best ones."""
    graph = hopwalk.graph_of(dataset_of(FAMILY))
    head, asked, tail = facts.array()[row].tolist()
    others = {fact[2] for fact in facts.array().tolist() if fact[:2] == [head, asked]} - {tail}
    entity_table, relation_table = walker.entity_table.weight, walker.relation_table.weight
    paths = [([(graph.relation_ids.start_id, head)], 0.0)]
    for hop in range(3):
        longer = []
        for path, score in paths:
            here = path[-1][1]
            inputs = torch.stack([torch.cat([relation_table[r], entity_table[e]]) for r, e in path])
            history = walker.path_encoder(inputs)[0][-1]
            wanted = walker.w2(torch.relu(walker.w1(torch.cat([entity_table[here], history, relation_table[asked]]))))
            edges = zip(*(column.tolist() for column in graph.edges_from(here)), strict=True)
            legal = [(r, e) for r, e in edges if (here, r, e) not in {(head, asked, tail), (tail, asked + 4, head)}]
            legal = [(r, e) for r, e in legal if hop < 2 or e not in others] or [(graph.relation_ids.stay_id, here)]
            actions = torch.stack([torch.cat([relation_table[r], entity_table[e]]) for r, e in legal])
            log_probs = torch.log_softmax(actions @ wanted, dim=0).tolist()
            longer += [([*path, edge], score + log_prob) for edge, log_prob in zip(legal, log_probs, strict=True)]
        paths = sorted(longer, key=lambda walked: -walked[1])[: beam if hop < 2 else None]
    assert beam < 1000 or math.isclose(sum(math.exp(score) for _, score in paths), 1, rel_tol=1e-4)
    best: dict[int, float] = {}
    for path, score in paths:
        best[path[-1][1]] = max(score, best.get(path[-1][1], -math.inf))
    return best


def decoded(walker: PlainWalker, facts: Triples, beam: int) -> list[dict[int, float]]:
    entities, scores = walker.decode(*columns(facts), beam)
    assert entities.shape == scores.shape == (len(facts), beam)
    assert (scores[:, :-1] >= scores[:, 1:]).all()
    pairs = [zip(*row, strict=True) for row in zip(entities.tolist(), scores.tolist(), strict=True)]
    return [{entity: score for entity, score in row if entity >= 0} for row in pairs]


@pytest.fixture
def decided():
    """A walker whose probabilities are far from equal."""
    facts, walker = family_walker()
    for parameter in walker.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return facts, walker


@pytest.mark.parametrize("bucket_interval", [None, 1, 2])
def test_wide_beam_finds_what_trying_every_path_finds(decided, bucket_interval):
    facts, walker = decided
    walker.settings = replace(walker.settings, bucket_interval=bucket_interval)
    for row, found in enumerate(decoded(walker, facts, beam=100)):
        assert found == pytest.approx(best_paths(walker, facts, row), abs=1e-4)


def test_narrow_beam_extends_the_best_paths_only(decided):
    facts, walker = decided
    for row, found in enumerate(decoded(walker, facts, beam=2)):
        reached = best_paths(walker, facts, row, beam=2)
        best = sorted(reached, key=lambda entity: -reached[entity])[:2]
        assert found == pytest.approx({entity: reached[entity] for entity in best}, abs=1e-4)


def test_the_asked_edge_is_never_walked(monkeypatch):
    facts, walker = family_walker(hops=5, action_dropout=0.5)
    seen = []
    look = walker._look

    def spied(asked, rows, taken, entities, *others, **more):
        seen.append((rows, taken, entities))
        return look(asked, rows, taken, entities, *others, **more)

    monkeypatch.setattr(walker, "_look", spied)
    walker.train_minibatch(*columns(facts))
    rows = facts.array()
    walked = set()
    for (queries, _, before), (_, relations, after) in pairwise(seen):
        edges = zip(*(column.tolist() for column in (queries, before, relations, after)), strict=True)
        walked |= set(edges)
    for query, (head, relation, tail) in enumerate(rows.tolist()):
        own = {(query, head, relation, tail), (query, tail, relation + 4, head)}
        assert not own & walked
        elsewhere = {(other, *edge[1:]) for other in range(6) for edge in own}
        assert elsewhere & walked  # others may


@pytest.mark.parametrize("bucket_interval", [None, 2])
def test_minibatch_changes_every_weight_by_a_finite_gradient(bucket_interval):
    facts, walker = family_walker(lambda heads, relations, tails: tails / 10, bucket_interval=bucket_interval)
    before = {name: parameter.clone() for name, parameter in walker.named_parameters()}
    assert math.isfinite(walker.train_minibatch(*columns(facts)))
    for name, parameter in walker.named_parameters():
        assert parameter.isfinite().all()
        assert not parameter.equal(before[name])


def test_both_paddings_give_the_same_loss():
    losses = []
    for bucket_interval in (None, 1, 10):
        facts, walker = family_walker(bucket_interval=bucket_interval, embedding_dropout=0.0)
        losses.append([walker.train_minibatch(*columns(facts)) for _ in range(3)])
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
    assert losses[2] == pytest.approx(losses[0], abs=1e-4)


def test_reward_is_one_for_the_answer_and_the_fact_score_elsewhere():
    facts, walker = family_walker(lambda heads, relations, tails: (heads + 10 * relations + 100 * tails) / 1000)
    asked = walker._ask(*columns(facts[:1]))  # ann mother_of bob: 0 2 1
    assert walker._rewards(asked, torch.tensor([0, 0]), torch.tensor([1, 3])).tolist() == pytest.approx([1, 0.32])


def test_the_way_is_learnt():
    facts, walker = family_walker(hops=2, action_dropout=0.3, entropy_weight=0.0, learning_rate=0.02)
    uncle = columns(facts[np.flatnonzero(facts.relations == 3)])  # bob uncle_of dan
    for _ in range(30):
        walker.train_minibatch(*uncle)
    entities, scores = walker.decode(*uncle, beam=10)
    assert entities[0, 0] == 3
    assert scores[0, 0] > math.log(0.9)


@pytest.mark.parametrize("facts", [[(0, 0, 0)], [(0, 0, 0), (0, 0, 1)]])
def test_walks_without_a_legal_edge_stay(facts):
    walker = walker_of(Triples.of(facts), 2, 1)
    asked = columns(Triples.of(facts[-1:]))  # of the second graph: 1 is behind the asked edge, and 0 is another answer
    assert math.isfinite(walker.train_minibatch(*asked))
    entities, scores = walker.decode(*asked, beam=5)
    assert entities.tolist() == [[0, -1, -1, -1, -1]]
    assert scores[0, 0].isfinite()
