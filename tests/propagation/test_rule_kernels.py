"""NeuralLP and DRUM: probabilities and gradients against dense matrices and all walks, worked out by hand and by enumeration."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from hopwalk.config.settings import RuleSettings
from hopwalk.data.triples import Triples
from hopwalk.propagation.parameters import Tasks
from hopwalk.propagation.queries import plain_tasks
from hopwalk.propagation.rule_kernels import Attentions
from hopwalk.propagation.rule_model import RuleEngine, RuleModel
from hopwalk.propagation.rule_search import PathSearch, best_rules, steps_of
from tests.propagation.rule_walks import (
    dense_loss,
    dense_probabilities,
    edges_of,
    engine_of,
    hidden_of,
    visible_edges,
    weights_of_walks,
)

E, R = 14, 2
KINDS = {"neural-lp": False, "drum": True}
SIZES = [(name, hops) for name in KINDS for hops in (1, 2, 3)]


def facts_of(num_facts: int = 24, seed: int = 0) -> Triples:
    """Facts of all entities but the last, which has none."""
    random = np.random.default_rng(seed)
    rows = np.stack([random.integers(0, size, num_facts) for size in (E - 1, R, E - 1)], axis=1)
    return Triples(*np.unique(rows, axis=0).astype(np.int32).T.copy())


def model_of(name: str, hops: int, rank: int = 2) -> RuleModel:
    settings = RuleSettings(hops=hops, dimension=5, hidden_dimension=6, rank=rank)
    model = RuleModel(2 * R, settings, torch.Generator().manual_seed(0), is_drum=KINDS[name])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # attentions that differ
    return model


def tasks_of(engine: RuleEngine, num_queries: int = 6) -> Tasks:
    """Queries with one to three targets, one of them out of reach, and some hidden facts."""
    random, facts = np.random.default_rng(1), facts_of()
    hidden = [edges_of(engine, facts[random.permutation(len(facts))[:3]]) for _ in range(num_queries)]
    targets = [random.permutation(E)[:count].astype(np.int32) for count in random.integers(1, 4, num_queries)]
    targets[0] = np.array([E - 1, 2], dtype=np.int32)
    heads, relations = (random.integers(0, size, num_queries) for size in (E - 1, 2 * R))
    plain = plain_tasks(heads, relations, hidden)
    offsets = np.cumsum([0, *map(len, targets)]).astype(np.int64)
    return plain._replace(target_offsets=offsets, targets=np.concatenate(targets))


def random_attentions(num_ranks: int, num_hops: int, seed: int = 3) -> Attentions:
    """Attentions of one query, each of which matters, the identity and earlier memories among them."""
    random = np.random.default_rng(seed)
    operators = random.dirichlet(np.ones(2 * R + 1), (1, num_ranks, num_hops))
    memories = np.tril(random.random((1, num_ranks, num_hops + 1, num_hops + 1)))
    return Attentions(operators, memories / memories.sum(-1, keepdims=True))


def test_probabilities_worked_out_by_hand():
    """a —r→ b —s→ c, two hops from a."""
    engine = engine_of(Triples.of([(0, 0, 1), (1, 1, 2)]), 3, 2, 2)
    operators = np.array([[[[0.6, 0.2, 0.1, 0.1, 0.0], [0.2, 0.5, 0.2, 0.1, 0.0]]]])
    memories = np.array([[[[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.1, 0.3, 0.6]]]])
    found, totals = engine.score(plain_tasks(np.array([0]), np.array([0])), Attentions(operators, memories))
    # m_1 = 0.25 a + 0.75 b; from a by r 0.05, from b by s 0.375 and by the inverse of r 0.15
    assert totals[0, 0] == pytest.approx([0.6, 0.575])
    assert found[0] == pytest.approx([0.1 + 0.6 * 0.15 / 0.575, 0.3 + 0.6 * 0.05 / 0.575, 0.6 * 0.375 / 0.575], abs=1e-7)


@pytest.mark.parametrize(("name", "hops"), SIZES)
def test_probabilities_loss_and_gradients_are_those_of_dense_matrices(name: str, hops: int):
    engine, model = engine_of(facts_of(), E, R, hops), model_of(name, hops)
    tasks = tasks_of(engine)
    found, _ = model.score_all(engine, tasks)
    attentions = model.attentions(torch.from_numpy(tasks.relations).long())
    for query, head in enumerate(tasks.heads.tolist()):
        each = attentions.operators[query], attentions.memories[query]
        expected = dense_probabilities(engine.graph, head, hidden_of(tasks, query), *each)
        assert np.allclose(found[query], expected.detach().numpy(), atol=1e-7)
    loss = model.mean_loss(engine, tasks)
    loss.backward()
    gradients = {key: parameter.grad for key, parameter in model.named_parameters()}
    model.zero_grad()
    plain = dense_loss(engine.graph, tasks, attentions)
    plain.backward()
    assert loss.item() == pytest.approx(plain.item(), abs=1e-9)
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None and gradients[key] is not None
        assert torch.allclose(gradients[key], parameter.grad, atol=1e-6), key  # type: ignore[arg-type]
    assert any(float(parameter.grad.abs().max()) > 1e-3 for parameter in model.parameters() if parameter.grad is not None)


def test_gradients_are_those_of_finite_differences():
    engine = engine_of(facts_of(), E, R, 3)
    tasks = tasks_of(engine)
    one = random_attentions(2, 3)
    attentions = Attentions(*(np.repeat(array, len(tasks.heads), axis=0) for array in one))
    _, gradient = engine.train(tasks, attentions)
    random, step = np.random.default_rng(0), 1e-6
    for array, found in zip(attentions, gradient, strict=True):
        for place in random.integers(0, array.size, 40).tolist():
            if array.flat[place] == 0:  # above the diagonal of the memory attention
                continue
            kept, losses = array.flat[place], []
            for sign in (1, -1):
                array.flat[place] = kept + sign * step
                losses.append(engine.train(tasks, attentions)[0].sum())
            array.flat[place] = kept
            assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(found.flat[place], abs=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_bits_do_not_depend_on_the_number_of_threads(name: str):
    model, results = model_of(name, 3), []
    for num_threads in (1, 2, 3):
        engine = engine_of(facts_of(), E, R, 3, num_threads)
        tasks = tasks_of(engine, 30)
        attentions = model.plain_attentions(torch.from_numpy(tasks.relations).long())
        results.append([*engine.train(tasks, attentions)[1], *engine.score(tasks, attentions)])
    for arrays in results[1:]:
        assert all(np.array_equal(array, first) for array, first in zip(arrays, results[0], strict=True))


@pytest.mark.parametrize("name", KINDS)
def test_a_batch_is_its_queries_one_at_a_time(name: str):
    """Nothing of a query is left in the workspace for the next, neither by training nor by scoring."""
    engine, model = engine_of(facts_of(), E, R, 3), model_of(name, 3)
    tasks = tasks_of(engine, 5)
    attentions = model.plain_attentions(torch.from_numpy(tasks.relations).long())
    losses, gradient = engine.train(tasks, attentions)
    together, _ = engine.score(tasks, attentions)
    for query in range(5):
        fresh = engine_of(facts_of(), E, R, 3)
        own = part_of(tasks, query)
        one = Attentions(*(array[query : query + 1] for array in attentions))
        assert np.array_equal(fresh.score(own, one)[0][0], together[query])
        loss, alone = fresh.train(own, one)
        assert loss[0] == losses[query]
        assert all(np.array_equal(new[0], old[query]) for new, old in zip(alone, gradient, strict=True))


def part_of(tasks: Tasks, query: int) -> Tasks:
    targets = tasks.targets[tasks.target_offsets[query] : tasks.target_offsets[query + 1]]
    plain = plain_tasks(tasks.heads[query : query + 1], tasks.relations[query : query + 1], [hidden_of(tasks, query)])
    return plain._replace(target_offsets=np.array([0, len(targets)]), targets=targets)


# The best paths and rules

VARIANTS: list[Any] = [pytest.param(ranks, hops, id=f"{ranks} ranks, {hops} hops") for ranks, hops in ((1, 2), (1, 3), (3, 3))]


@pytest.mark.parametrize(("ranks", "hops"), VARIANTS)
def test_probabilities_are_sums_over_walks_and_the_best_paths_are_found(ranks: int, hops: int):
    engine, attentions = engine_of(facts_of(), E, R, hops), random_attentions(ranks, hops)
    hidden = edges_of(engine, facts_of()[:2])
    tasks = plain_tasks(np.array([3]), np.array([0]), [hidden])
    probabilities, totals = engine.score(tasks, attentions)
    walks = weights_of_walks(visible_edges(engine.graph, hidden), 3, attentions.operators[0], attentions.memories[0])
    search = PathSearch(engine.graph, engine.inverses, steps_of(attentions, 0, totals[0]), 3, hidden)
    num_compared = 0
    for entity in range(E):
        to_entity = {walk: weight for walk, weight in walks.items() if (walk[-1][1] if walk else 3) == entity}
        assert probabilities[0, entity] == pytest.approx(sum(to_entity.values()), abs=1e-6)
        simple = {walk: weight for walk, weight in to_entity.items() if walk and is_simple(walk, 3)}
        expected = sorted(simple.items(), key=lambda item: -item[1])
        found = search.best(entity, 4)
        assert len(found) == min(4, len(expected))
        for (weight, steps), (_, best) in zip(found, expected, strict=False):
            assert weight == pytest.approx(best) and weight == pytest.approx(simple[steps])
            num_compared += 1
    assert num_compared > 10


def is_simple(walk: tuple[tuple[int, int], ...], head: int) -> bool:
    entities = [entity for _, entity in walk]
    return len({*entities}) == len(entities) and head not in entities[:-1]


@pytest.mark.parametrize(("ranks", "hops"), VARIANTS)
def test_the_best_rules_are_those_of_all_rules(ranks: int, hops: int):
    attentions = random_attentions(ranks, hops)
    everything = 3 * (2 * R) ** hops
    found = list(best_rules(steps_of(attentions, 0), everything))
    loops = [(0, relation, 0) for relation in range(2 * R)]  # every sequence of relations is a walk
    walks = weights_of_walks(loops, 0, attentions.operators[0], attentions.memories[0])
    expected = {tuple(relation for relation, _ in walk): weight for walk, weight in walks.items()}
    assert len(expected) == sum(1 for length in range(hops + 1) for _ in product(range(2 * R), repeat=length))
    assert {rule: weight for weight, rule in found} == pytest.approx(expected)
    assert [weight for weight, _ in found] == pytest.approx(sorted(expected.values(), reverse=True))
    assert sum(weight for weight, _ in found) == pytest.approx(1)
    best = max(expected, key=lambda rule: expected[rule])
    assert [rule for _, rule in best_rules(steps_of(attentions, 0), 1)] == [best]
