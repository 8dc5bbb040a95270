"""The plain walker, against the paper's equations worked out path by path; speed is not tested."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.plain_walker import ActionSpace, FactProbability, PlainSettings, PlainWalker, Queries, States

import hopwalk
from hopwalk.data.graph import build_graph
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Ids, Triples
from tests.support.helpers import FAMILY, dataset_of

SMALL: dict[str, Any] = {"dimension": 8, "hops": 3, "rollouts": 50, "decode_batch_size": 4}


def walker_of(
    facts: Triples, num_entities: int, num_relations: int, f: FactProbability | None = None, **settings: Any
) -> PlainWalker:
    torch.manual_seed(0)
    known_answers = KnownAnswers([facts], num_entities, num_relations)
    return PlainWalker(build_graph(facts, num_entities, num_relations), known_answers, PlainSettings(**SMALL | settings), f)


def family_walker(f: FactProbability | None = None, **settings: Any) -> tuple[Triples, PlainWalker]:
    facts = dataset_of(FAMILY).facts  # ann bob cat dan eve; brother_of knows mother_of uncle_of
    return facts, walker_of(facts, 5, 4, f, **settings)


def columns(facts: Triples) -> tuple[Ids, Ids, Ids]:
    return facts.heads, facts.relations, facts.tails


@torch.no_grad()
def best_paths(walker: PlainWalker, facts: Triples, row: int, beam: int = 1000) -> dict[int, float]:
    """The log-probability of the best path to every entity, path by path; of those that extend the `beam` best ones."""
    graph = hopwalk.graph_of(dataset_of(FAMILY))
    e_s, r_q, e_o = facts.array()[row].tolist()
    others = {fact[2] for fact in facts.array().tolist() if fact[:2] == [e_s, r_q]} - {e_o}
    entities, relations = walker.entity_embeddings.weight, walker.relation_embeddings.weight
    paths = [([(graph.relation_ids.start_id, e_s)], 0.0)]
    for hop in range(3):
        longer = []
        for path, score in paths:
            e_t = path[-1][1]
            inputs = torch.stack([torch.cat([relations[r], entities[e]]) for r, e in path])
            h_t = walker.lstm(inputs)[0][-1]
            action_query = walker.w2(torch.relu(walker.w1(torch.cat([entities[e_t], h_t, relations[r_q]]))))
            edges = zip(*(column.tolist() for column in graph.edges_from(e_t)), strict=True)
            legal = [(r, e) for r, e in edges if (e_t, r, e) not in {(e_s, r_q, e_o), (e_o, r_q + 4, e_s)}]
            legal = [(r, e) for r, e in legal if hop < 2 or e not in others] or [(graph.relation_ids.stay_id, e_t)]
            actions = torch.stack([torch.cat([relations[r], entities[e]]) for r, e in legal])
            log_probs = torch.log_softmax(actions @ action_query, dim=0).tolist()
            longer += [([*path, edge], score + log_prob) for edge, log_prob in zip(legal, log_probs, strict=True)]
        paths = sorted(longer, key=lambda scored: -scored[1])[: beam if hop < 2 else None]
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
def decided() -> tuple[Triples, PlainWalker]:
    """A walker whose probabilities are far from equal."""
    facts, walker = family_walker()
    for parameter in walker.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return facts, walker


@pytest.mark.parametrize("bucket_interval", [None, 1, 2])
def test_a_wide_beam_is_exhaustive(decided: tuple[Triples, PlainWalker], bucket_interval: int | None):
    facts, walker = decided
    walker.settings = replace(walker.settings, bucket_interval=bucket_interval)
    for row, found in enumerate(decoded(walker, facts, beam=100)):
        assert found == pytest.approx(best_paths(walker, facts, row), abs=1e-4)


def test_a_narrow_beam_extends_the_best_paths_only(decided: tuple[Triples, PlainWalker]):
    facts, walker = decided
    for row, found in enumerate(decoded(walker, facts, beam=2)):
        reached = best_paths(walker, facts, row, beam=2)
        best = sorted(reached, key=lambda entity: -reached[entity])[:2]
        assert found == pytest.approx({entity: reached[entity] for entity in best}, abs=1e-4)


class RecordingWalker(PlainWalker):
    """Remembers the states of its walks."""

    def policy(self, queries: Queries, states: States, *, is_last: bool) -> tuple[ActionSpace, tuple[torch.Tensor, torch.Tensor]]:
        self.states = [*getattr(self, "states", []), states]
        return super().policy(queries, states, is_last=is_last)


def test_the_edge_of_the_query_is_never_walked():
    facts = dataset_of(FAMILY).facts
    settings = PlainSettings(**SMALL | {"hops": 5, "action_dropout": 0.5})
    torch.manual_seed(0)
    walker = RecordingWalker(build_graph(facts, 5, 4), KnownAnswers([facts], 5, 4), settings)
    walker.train_minibatch(*columns(facts))
    walked: set[tuple[int, ...]] = set()
    for before, after in pairwise(walker.states):
        steps = (before.rows, before.e_t, after.r_t, after.e_t)
        walked |= set(zip(*(column.tolist() for column in steps), strict=True))
    for query, (head, relation, tail) in enumerate(facts.array().tolist()):
        own = {(query, head, relation, tail), (query, tail, relation + 4, head)}
        assert not own & walked
        of_others = {(other, *edge[1:]) for other in range(6) for edge in own}
        assert of_others & walked  # walks of other queries may take it


@pytest.mark.parametrize("bucket_interval", [None, 2])
def test_a_minibatch_changes_every_weight_by_a_finite_gradient(bucket_interval: int | None):
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


def test_the_reward_is_1_for_the_answer_and_f_elsewhere():
    facts, walker = family_walker(lambda heads, relations, tails: (heads + 10 * relations + 100 * tails) / 1000)
    queries = walker.queries(*columns(facts[:1]))  # ann mother_of bob: 0 2 1
    rows, ends = torch.tensor([0, 0]), torch.tensor([1, 3])
    assert walker.reward(queries, rows, ends).tolist() == pytest.approx([1, 0.32])  # equation 7
    walker.f = None
    assert walker.reward(queries, rows, ends).tolist() == [1, 0]  # equation 1


def test_action_dropout_masks_actions_and_falls_back_to_legal_ones():
    _, walker = family_walker(action_dropout=1.0)
    is_legal = torch.tensor([[True, False, True, False]]).repeat(2000, 1)
    log_pi = torch.tensor([[0.98, 0.0, 0.02, 0.0]]).clamp(min=1e-30).log().repeat(2000, 1)
    actions = ActionSpace(torch.zeros_like(is_legal), torch.zeros_like(is_legal), is_legal, log_pi)
    all_masked = torch.bincount(walker.sample(actions).flatten(), minlength=4) / 2000
    assert all_masked.tolist() == pytest.approx([0.5, 0, 0.5, 0], abs=0.05)
    walker.settings = replace(walker.settings, action_dropout=0.0)
    none_masked = torch.bincount(walker.sample(actions).flatten(), minlength=4) / 2000
    assert none_masked.tolist() == pytest.approx([0.98, 0, 0.02, 0], abs=0.02)


def test_a_rule_is_learnt():
    facts, walker = family_walker(hops=2, action_dropout=0.3, entropy_weight=0.0, learning_rate=0.02)
    uncle = columns(facts[np.flatnonzero(facts.relations == 3)])  # bob uncle_of dan
    for _ in range(30):
        walker.train_minibatch(*uncle)
    entities, scores = walker.decode(*uncle, beam=10)
    assert entities[0, 0] == 3
    assert scores[0, 0] > math.log(0.9)


@pytest.mark.parametrize("facts", [[(0, 0, 0)], [(0, 0, 0), (0, 0, 1)]])
def test_walks_without_a_legal_edge_stay(facts: list[tuple[int, int, int]]):
    walker = walker_of(Triples.of(facts), 2, 1)
    query = columns(Triples.of(facts[-1:]))  # in the second graph, 1 is behind the edge of the query, and 0 is another answer
    assert math.isfinite(walker.train_minibatch(*query))
    entities, scores = walker.decode(*query, beam=5)
    assert entities.tolist() == [[0, -1, -1, -1, -1]]
    assert scores[0, 0].isfinite()
