"""Sampled walks and action dropout, against frequencies worked out over all masks."""

import itertools
from typing import Any

import pytest
import torch

from hopwalk.data.triples import Triples
from hopwalk.utils import products
from hopwalk.walker import ragged
from hopwalk.walker.environment import ActionSpace, States
from hopwalk.walker.rollout import EPSILON, action_dropout
from tests.support.walks import all_paths, environment_of, rollouts_of, training_queries_of


def test_action_dropout_has_the_frequencies_of_equation_8():
    generator, rate = torch.Generator().manual_seed(1), 0.6
    probs = torch.tensor([0.5, 0.3, 0.2])
    expected = torch.zeros(3)
    for mask in itertools.product([0.0, 1.0], repeat=3):
        weights = probs * torch.tensor(mask) + EPSILON
        chance = rate ** (3 - sum(mask)) * (1 - rate) ** sum(mask)
        expected += chance * weights / weights.sum()
    offsets = torch.arange(0, 3 * 20_001, 3)
    weights = action_dropout(probs.repeat(20_000), rate, generator)
    sampled = ragged.sample(weights, offsets, generator) - offsets[:-1]
    assert torch.allclose(torch.bincount(sampled, minlength=3) / 20_000, expected, atol=0.015)


def test_without_action_dropout_the_policy_is_sampled():
    probs = torch.tensor([0.5, 0.3, 0.2])
    assert action_dropout(probs, 0.0, torch.Generator()) is probs


def test_with_all_actions_dropped_they_are_sampled_alike():
    weights = action_dropout(torch.tensor([0.5, 0.3, 0.2]), 1.0, torch.Generator())
    assert weights.unique().numel() == 1 and float(weights[0]) > 0


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_every_query_has_its_rollouts(hops: int):
    environment = environment_of()
    queries = training_queries_of(environment, (0, 0, 1), (1, 0, 3))
    rollouts = rollouts_of(environment, queries, hops=hops, rollouts=50, rate=0.3)
    assert rollouts.queries.tolist() == [0] * 50 + [1] * 50
    assert (rollouts.paths.shape, len(rollouts.entropies)) == ((100, 2 * hops), hops)
    assert len(rollouts.last.offsets) == 101
    assert rollouts.last.tails[rollouts.ends].tolist() == rollouts.paths[:, -1].tolist()
    assert torch.allclose(ragged.row_sums(rollouts.last_weights, rollouts.last.offsets), torch.ones(100))
    distinct = {(int(query), *path.tolist()) for query, path in zip(rollouts.queries, rollouts.paths, strict=True)}
    assert {query for query, *_ in distinct} == {0, 1} and len(distinct) > 4  # each rollout samples for itself


def test_log_probabilities_of_rollouts_are_those_of_their_paths():
    environment = environment_of()
    queries = training_queries_of(environment, (0, 0, 1))
    rollouts = rollouts_of(environment, queries, hops=3, rollouts=40)
    expected = {tuple(itertools.chain.from_iterable(path)): log_prob for path, log_prob in all_paths(environment, queries, 3)}
    found = rollouts.log_probs + rollouts.last.log_probs[rollouts.ends]
    for path, log_prob in zip(rollouts.paths.tolist(), found, strict=True):
        assert float(log_prob.detach()) == pytest.approx(float(expected[tuple(path)].detach()), abs=1e-5)


def test_walks_on_the_same_path_share_their_dropout():
    environment = environment_of(embedding_dropout=0.5, hidden_dropout=0.5)
    environment.policy.train()
    rollouts = rollouts_of(environment, training_queries_of(environment, (0, 0, 1)), hops=3, rollouts=60)
    log_probs, offsets = rollouts.last.log_probs.detach(), rollouts.last.offsets
    by_prefix: dict[tuple[int, ...], set[tuple[float, ...]]] = {}
    for walk, path in enumerate(rollouts.paths.tolist()):
        of_walk = float(rollouts.log_probs[walk].detach()), *log_probs[offsets[walk] : offsets[walk + 1]].tolist()
        by_prefix.setdefault(tuple(path[:-2]), set()).add(of_walk)
    assert 1 < len(by_prefix) < 60
    assert all(len(found) == 1 for found in by_prefix.values())
    assert len(set.union(*by_prefix.values())) == len(by_prefix)  # walks on other paths have other masks


def test_states_are_computed_in_few_numbers(monkeypatch: pytest.MonkeyPatch):
    environment = environment_of()
    numbers: list[int] = []
    step = environment.step

    def counted(states: States, *args: Any, **options: Any) -> ActionSpace:
        numbers.append(len(states))
        return step(states, *args, **options)

    monkeypatch.setattr(environment, "step", counted)
    monkeypatch.setattr(products, "ROWS", 7)
    queries = training_queries_of(environment, (0, 0, 1), (1, 0, 3))
    rollouts = rollouts_of(environment, queries, hops=3, rollouts=50)
    prefixes = [rollouts.paths[:, :length].tolist() for length in (2, 4)]
    distinct = [len({(query, *prefix) for query, prefix in zip(rollouts.queries.tolist(), of, strict=True)}) for of in prefixes]
    assert numbers == [2, *(-(-number // 7) * 7 if number > 7 else number for number in distinct)]
    assert numbers[2] > distinct[1]  # some states are no walk's


def test_the_entropy_is_the_mean_over_walks():
    environment = environment_of()
    rollouts = rollouts_of(environment, training_queries_of(environment, (0, 0, 1)), hops=2, rollouts=50)
    last = rollouts.last
    entropies = ragged.row_sums((-last.log_probs.exp() * last.log_probs).detach(), last.offsets)
    assert float(rollouts.entropies[-1].detach()) == pytest.approx(float(entropies.mean()), abs=1e-5)


def test_rollouts_without_legal_actions_stay():
    environment = environment_of(Triples.of([(0, 0, 0), (0, 0, 1)]), 2, 1)
    rollouts = rollouts_of(environment, training_queries_of(environment, (0, 0, 1)), hops=2, rollouts=3, rate=0.5)
    assert len(rollouts.ends) == 3 and torch.isfinite(rollouts.last_weights).all()
