"""The environment: legal actions, known answers, transitions and copies, worked out by hand on a family of five."""

import numpy as np
import pytest
import torch

from hopwalk.data.triples import Triples
from hopwalk.walker import ragged
from hopwalk.walker.environment import MOST_MARKS, ActionSpace, Environment, Queries, States
from tests.support.walks import FACTS, actions_by_walk, environment_of, queries_of, training_queries_of


def first_actions(environment: Environment, queries: Queries, *, is_last: bool = False, blocks_known: bool = True) -> ActionSpace:
    return environment.step(environment.start(queries), queries, is_last=is_last, blocks_known=blocks_known)


# Legal actions


def test_positions_of_edges():
    graph = environment_of().graph
    ids = [np.array(column, dtype=np.int32) for column in ([0, 0, 1, 3, 0, 4], [0, 1, 2, 2, 0, 4], [2, 1, 0, 1, 3, 4])]
    found = graph.edge_positions(*ids)
    for head, relation, tail, position in zip(*ids, found, strict=True):
        start = graph.offsets[head]
        edges = list(zip(*(part.tolist() for part in graph.edges_from(head)), strict=True))
        assert position == (start + edges.index((relation, tail)) if (relation, tail) in edges else -1)


def test_the_edge_of_the_query_and_its_inverse_are_hidden():
    environment = environment_of()
    queries = training_queries_of(environment, (0, 0, 1))
    states = environment.start(queries)
    first = environment.step(states, queries, is_last=False)
    assert actions_by_walk(first) == [{(0, 2), (1, 1), (4, 0)}]  # not (0, 1); 4 is the stay relation
    chosen = torch.tensor([first.tails.tolist().index(1)])
    second = environment.step(environment.transition(states, first, chosen), queries, is_last=False)
    assert actions_by_walk(second) == [{(0, 3), (3, 0), (4, 1)}]  # not (2, 0), the inverse


def test_other_answers_are_blocked_on_the_last_hop():
    environment = environment_of()
    training, query = training_queries_of(environment, (0, 0, 1)), queries_of((0, 0))
    assert actions_by_walk(first_actions(environment, training, is_last=True)) == [{(1, 1), (4, 0)}]  # 2 is another child of 0
    assert actions_by_walk(first_actions(environment, query, is_last=True)) == [{(4, 0)}]
    everything = first_actions(environment, query, is_last=True, blocks_known=False)
    assert actions_by_walk(everything) == [{(0, 1), (0, 2), (1, 1), (4, 0)}]


def test_a_walk_without_legal_actions_stays():
    """A fact from an entity to itself: staying there reaches a known answer, and so do all other edges."""
    environment = environment_of(Triples.of([(0, 0, 0), (0, 0, 1)]), 2, 1)
    last = first_actions(environment, training_queries_of(environment, (0, 0, 1)), is_last=True)
    assert actions_by_walk(last) == [{(2, 0)}] and last.log_probs.tolist() == [0.0]


def test_known_answers_are_blocked_alike_on_small_and_large_graphs():
    """With many queries over many entities, known answers are looked up in a set instead of being marked in a table."""
    small, large = environment_of(dimension=1), environment_of(num_entities=70_000, dimension=1)
    pairs = [(0, 0), (1, 0), (0, 1), (4, 2)] * 125
    assert 500 * 5 <= MOST_MARKS < 500 * 70_000
    assert actions_by_walk(first_actions(small, queries_of(*pairs), is_last=True)) == actions_by_walk(
        first_actions(large, queries_of(*pairs), is_last=True)
    )
    facts = FACTS.array().tolist() * 100
    found = [first_actions(each, training_queries_of(each, *map(tuple, facts)), is_last=True) for each in (small, large)]
    assert actions_by_walk(found[0]) == actions_by_walk(found[1])


# Transitions


def test_every_distinct_path_is_read_once():
    """The worked example of the docstring of `Environment.transition`: R = 4, E = 10."""
    environment = environment_of(Triples.of([(2, 0, 7), (3, 0, 7)]), 10, 1)
    policy = environment.policy
    assert len(policy.relations) == 4
    encoding = policy.start(torch.tensor([2, 3]))
    states = States(torch.tensor([0, 1, 1]), torch.tensor([2, 2, 3]), encoding, torch.tensor([0, 0, 1]))
    relations, tails = torch.tensor([1, 1, 0]), torch.tensor([7, 7, 7])
    actions = ActionSpace(torch.arange(4), relations, tails, torch.zeros(3))
    after = environment.transition(states, actions, torch.arange(3))
    assert after.paths is not None
    assert (len(after.encoding.top), after.paths.tolist()) == (2, [0, 0, 1])
    assert (after.queries.tolist(), after.entities.tolist()) == ([0, 1, 1], [7, 7, 7])
    each = policy.encode_step(encoding, relations, tails, rows=states.paths)  # every walk for itself
    assert torch.allclose(after.encoding.rows(after.paths).top, each.top, atol=1e-6)


@pytest.mark.parametrize("hops", [1, 2])
def test_shared_paths_have_the_probabilities_of_separate_ones(hops: int):
    """With a generator every walk has an encoding of its own; without dropout both are the same."""
    environment, queries = environment_of(), queries_of((0, 1), (0, 0), (1, 2))
    generator = torch.Generator().manual_seed(0)
    shared, separate = environment.start(queries), environment.start(queries, generator)
    for _ in range(hops):
        actions = environment.step(shared, queries, is_last=False)
        chosen, walks = torch.arange(len(actions.tails)), actions.walks
        shared = environment.transition(shared, actions, chosen, walks=walks)
        separate = environment.transition(separate, actions, chosen, walks=walks, generator=generator)
    assert len(shared.encoding.top) < len(separate.encoding.top) == len(shared)
    found, expected = (environment.step(states, queries, is_last=False) for states in (shared, separate))
    assert torch.equal(found.offsets, expected.offsets)
    assert torch.allclose(found.log_probs, expected.log_probs, atol=1e-5)


# Copies


def test_gradients_of_copies_add_up():
    environment, queries = environment_of(), queries_of((0, 1), (1, 2))
    parameters = environment.policy.w2.weight, environment.policy.entities
    actions = environment.step(environment.start(queries), queries, is_last=False)
    copies = actions.take(*ragged.take_rows(actions.offsets, torch.tensor([0, 0, 0, 1, 1, 1])))
    weights = torch.randn(len(copies.tails), generator=torch.Generator().manual_seed(0))
    found = torch.autograd.grad((weights * copies.log_probs).sum(), parameters, retain_graph=True)
    per_action = torch.zeros(len(actions.tails))
    for walk, (start, end) in enumerate(zip(actions.offsets[:-1].tolist(), actions.offsets[1:].tolist(), strict=True)):
        for copy in range(3 * walk, 3 * walk + 3):
            per_action[start:end] += weights[copies.offsets[copy] : copies.offsets[copy + 1]]
    expected = torch.autograd.grad((per_action * actions.log_probs).sum(), parameters)
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(found, expected, strict=True))
    assert all(gradient.abs().max() > 0 for gradient in found)
