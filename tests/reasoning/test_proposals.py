"""Proposed facts: asked from both ends, each once, with one probability."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hopwalk.data.dataset import Dataset
from hopwalk.errors import HopwalkError
from hopwalk.reasoning.models import Candidates, QueryIds, Ranking
from hopwalk.reasoning.proposals import FOUND, Proposer, joint_log_odds
from tests.support.helpers import dataset_of


class Given(Ranking):
    def __init__(self, candidates: list[Candidates]) -> None:
        self.candidates = candidates

    def paths(self, chosen: Sequence[Sequence[int]], num_paths: int) -> Any:
        raise NotImplementedError


class Chances:
    """A model whose probabilities are given by labels of (head, relation, tail); inverses end in ⁻¹."""

    def __init__(self, dataset: Dataset, chances: dict[tuple[str, str, str], float], *, is_calibrated: bool = True) -> None:
        self.dataset, self.chances, self.is_calibrated = dataset, chances, is_calibrated
        self.asked: list[QueryIds] = []

    def rank(self, queries: Sequence[QueryIds], *, only_new: bool = False, k: int | None = None) -> Ranking:
        assert only_new
        self.asked += queries
        return Given([self._candidates(head, relation) for head, relation in queries])

    def _candidates(self, head: int, relation: int) -> Candidates:
        ids, names = self.dataset.relation_ids, self.dataset.relations
        name = f"{names[ids.inverse(relation)]}⁻¹" if ids.is_inverse(relation) else names[relation]
        own = {tail: p for (one, way, tail), p in self.chances.items() if (one, way) == (self.dataset.entities[head], name)}
        order = sorted(own, key=lambda tail: -own[tail])
        values = np.array([own[tail] for tail in order])
        tails = np.array([self.dataset.entities.id(tail) for tail in order], dtype=np.int64)
        return Candidates(tails, values, values if self.is_calibrated else None)


FACTS = [("a", "r", "x"), ("b", "r", "y"), ("c", "r", "z"), ("a", "s", "b"), ("b", "s", "c"), ("c", "s", "a"), ("x", "t", "y")]


def proposed(
    chances: dict[tuple[str, str, str], float], *, above: float = 0.5, heads: list[str] | None = None
) -> dict[Any, float]:
    data = dataset_of(FACTS)
    proposer = Proposer(
        Chances(data, chances),  # type: ignore[arg-type]
        [data.relations.id("r")],
        None if heads is None else [data.entities.id(head) for head in heads],
        above,
    )
    queries = proposer.queries()
    found = proposer.ask(queries.batch(0, len(queries))[0])
    others = proposer.other_direction(found)
    if len(others):
        found = np.concatenate([found, proposer.look_up(*others.batch(0, len(others)))])
    groups, probabilities = proposer.proposals(found)
    return dict(zip(data.labels_of(groups.facts), probabilities.tolist(), strict=True))


def test_both_directions_make_one_fact_with_the_mean_of_its_log_odds():
    odds = np.sqrt((0.8 / 0.2) * (0.6 / 0.4))
    found = proposed({("a", "r", "y"): 0.8, ("y", "r⁻¹", "a"): 0.6})
    assert found == {("a", "r", "y"): pytest.approx(odds / (1 + odds), rel=1e-6)}


def test_a_fact_that_one_direction_finds_is_looked_up_in_the_other():
    chances = {("a", "r", "y"): 0.89, ("y", "r⁻¹", "a"): 0.1, ("z", "r⁻¹", "b"): 0.9, ("b", "r", "z"): 0.4}
    odds = np.sqrt(9 * 2 / 3)
    assert proposed(chances) == {("b", "r", "z"): pytest.approx(odds / (1 + odds), rel=1e-6)}  # the other is below 50 %


def test_a_direction_that_does_not_reach_it_says_nothing():
    assert proposed({("y", "r⁻¹", "a"): 0.7}) == {("a", "r", "y"): pytest.approx(0.7, rel=1e-6)}
    nan = np.nan
    assert joint_log_odds(np.array([1.0, nan, 3.0]), np.array([3.0, 2.0, nan])).tolist() == [2.0, 2.0, 3.0]


def test_entities_of_another_kind_and_the_head_itself_are_not_proposed():
    assert proposed({("a", "r", "c"): 0.9, ("a", "r", "a"): 0.9, ("x", "r⁻¹", "y"): 0.9}) == {}


def test_chosen_heads_are_the_only_ones():
    chances = {("a", "r", "y"): 0.9, ("b", "r", "x"): 0.9, ("y", "r⁻¹", "a"): 0.9}
    assert {*proposed(chances, heads=["a"])} == {("a", "r", "y")}
    assert {*proposed(chances)} == {("a", "r", "y"), ("b", "r", "x")}


def test_a_model_without_probabilities_is_refused():
    data = dataset_of(FACTS)
    proposer = Proposer(Chances(data, {}, is_calibrated=False), [], None, 0.5)  # type: ignore[arg-type]
    with pytest.raises(HopwalkError, match="no calibrated probabilities"):
        proposer.ask([(0, 0)])


def test_nothing_found_is_nothing_proposed():
    assert proposed({}) == {}
    proposer = Proposer(Chances(dataset_of(FACTS), {}), [], None, 0.5)  # type: ignore[arg-type]
    assert len(proposer.other_direction(np.empty(0, dtype=FOUND))) == 0
