"""Proposed facts: asked from both ends, each once, with one probability."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Ids
from hopwalk.errors import HopwalkError
from hopwalk.learning.calibration import Calibration
from hopwalk.reasoning.models import Candidates, QueryIds, Ranking, best_candidates
from hopwalk.reasoning.proposals import FOUND, Proposer
from hopwalk.reasoning.rules import RuleCounter
from tests.support.helpers import dataset_of


class Given(Ranking):
    def __init__(self, candidates: list[Candidates]) -> None:
        self.candidates = candidates

    def paths(self, chosen: Sequence[Sequence[int]], num_paths: int) -> Any:
        raise NotImplementedError


class Chances:
    """A model whose probabilities are given by labels of (head, relation, tail), others are 0; inverses end in ⁻¹."""

    probability = None

    def __init__(self, dataset: Dataset, chances: dict[tuple[str, str, str], float], *, is_calibrated: bool = True) -> None:
        self.dataset, self.chances, self.calibration = dataset, chances, Calibration() if is_calibrated else None
        self.known = KnownAnswers([dataset.facts], len(dataset.entities), len(dataset.relations))
        self.rule_counter = RuleCounter(dataset.facts, dataset)

    def score_all_tails(self, heads: Ids, relations: Ids) -> NDArray[np.float32]:
        table = np.full((len(heads), len(self.dataset.entities)), -np.inf, dtype=np.float32)
        ids, names = self.dataset.relation_ids, self.dataset.relations
        for row, (head, relation) in enumerate(zip(heads.tolist(), relations.tolist(), strict=True)):
            name = f"{names[ids.inverse(relation)]}⁻¹" if ids.is_inverse(relation) else names[relation]
            for (one, way, tail), chance in self.chances.items():
                if (one, way) == (self.dataset.entities[head], name):
                    table[row, self.dataset.entities.id(tail)] = np.log(chance / (1 - chance))
        return table

    def rank(self, queries: Sequence[QueryIds], *, only_new: bool = False, k: int | None = None) -> Ranking:
        assert only_new
        found = []
        for head, relation in queries:
            scores = self.score_all_tails(np.array([head]), np.array([relation]))[0]
            reached = np.flatnonzero(scores > -np.inf)
            found.append(best_candidates(reached, scores[reached], 0.0, np.empty(0, dtype=np.int32), k))
        return Given(found)


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


def test_both_directions_make_one_fact_with_the_mean_of_its_probabilities():
    """That is without dev facts; with them the fitted probability takes both scores."""
    found = proposed({("a", "r", "y"): 0.8, ("y", "r⁻¹", "a"): 0.6})
    assert found == {("a", "r", "y"): pytest.approx(0.7, rel=1e-6)}


def test_a_fact_that_one_direction_finds_is_looked_up_in_the_other():
    chances = {("a", "r", "y"): 0.89, ("y", "r⁻¹", "a"): 0.1, ("z", "r⁻¹", "b"): 0.9, ("b", "r", "z"): 0.4}
    assert proposed(chances) == {("b", "r", "z"): pytest.approx(0.65, rel=1e-6)}  # the other is below 50 %


def test_a_direction_that_does_not_reach_it_counts():
    assert proposed({("y", "r⁻¹", "a"): 0.7}) == {}
    assert proposed({("y", "r⁻¹", "a"): 0.7}, above=0.3) == {("a", "r", "y"): pytest.approx(0.35, rel=1e-6)}


def test_entities_of_another_kind_and_the_head_itself_are_not_proposed():
    assert proposed({("a", "r", "c"): 0.9, ("a", "r", "a"): 0.9, ("x", "r⁻¹", "y"): 0.9}) == {}


def test_chosen_heads_are_the_only_ones():
    chances = {("a", "r", "y"): 0.9, ("b", "r", "x"): 0.9, ("y", "r⁻¹", "a"): 0.9, ("x", "r⁻¹", "b"): 0.9}
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
