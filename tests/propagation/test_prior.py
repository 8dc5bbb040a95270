"""Entities out of reach: what the model gives to all of them together goes to frequent tails of the relation."""

import numpy as np
import pytest
import torch

from hopwalk.config.settings import PropagationSettings
from hopwalk.data.relation_ids import RelationIds
from hopwalk.data.triples import Triples
from hopwalk.learning.reached import ReachedScores
from hopwalk.learning.scorer import PathScorer
from hopwalk.propagation.graph import build_run_graph
from hopwalk.propagation.prior import TailPrior
from hopwalk.propagation.scorer import PropagationScorer

# Entities 0 to 5; of relation 0, entity 3 is the tail of three facts, entity 4 of one; nothing is known about entity 5.
FACTS = Triples.of([(0, 0, 3), (1, 0, 3), (2, 0, 3), (2, 0, 4), (0, 1, 1)])
E, R = 6, 2


def prior_of(share: float) -> TailPrior:
    return TailPrior(build_run_graph(FACTS, E, R), RelationIds(R), share)


def nothing_reached(unreached: float) -> ReachedScores:
    return ReachedScores(
        np.array([0, 1]), np.array([5], dtype=np.int32), np.zeros(1, np.float32), np.array([unreached], np.float32)
    )


def test_worked_by_hand():
    """Five entities are out of reach with exp(u) each; half of it goes to entities 3 and 4, three to one."""
    found = prior_of(0.5).applied(nothing_reached(np.log(0.2)), np.array([0]))
    masses = np.exp(found.dense(E)[0])
    np.testing.assert_allclose(masses, [0.1, 0.1, 0.1, 0.1 + 0.5 * 3 / 4, 0.1 + 0.5 / 4, 1.0], rtol=1e-6)


def test_the_normaliser_stays():
    before = nothing_reached(-1.3)
    after = prior_of(0.9).applied(before, np.array([0]))
    assert after.log_normalisers(E)[0] == pytest.approx(before.log_normalisers(E)[0], rel=1e-6)


def test_tails_of_an_inverse_are_heads():
    tails, counts = prior_of(0.5).tails_of(int(RelationIds(R).inverse(0)))
    assert list(zip(tails.tolist(), counts.tolist(), strict=True)) == [(2, 2), (0, 1), (1, 1)]


def test_hidden_facts_do_not_count():
    """In neither direction: without its only fact, entity 4 is no tail of the relation."""
    for fact in ((2, 0, 4), (4, int(RelationIds(R).inverse(0)), 2)):
        found = prior_of(0.5).applied(nothing_reached(0.0), np.array([0]), [Triples.of([fact])])
        assert found.entities.tolist() == [5, 3]


def test_what_is_reached_keeps_its_score():
    scores = ReachedScores(
        np.array([0, 2]), np.array([5, 3], dtype=np.int32), np.array([1.0, 2.0], np.float32), np.zeros(1, np.float32)
    )
    found = prior_of(0.5).applied(scores, np.array([0]))
    assert found.entities.tolist() == [5, 3, 4] and found.scores[:2].tolist() == [1.0, 2.0]
    assert prior_of(0.0).applied(scores, np.array([0])) is scores
    assert prior_of(0.5).applied(scores, np.array([1])).entities.tolist() == [5, 3, 1]


def test_an_entity_without_facts_is_answered_by_frequent_tails():
    scorer: PathScorer = PropagationScorer(E, R, PropagationSettings(layers=2, width=8, prior=0.5), FACTS)
    heads, relations = np.array([5], dtype=np.int32), np.array([0], dtype=np.int32)
    ranked = scorer.score_candidates(heads, relations).dense(E)[0]
    assert np.argsort(-np.delete(ranked, 5), kind="stable")[:2].tolist() == [3, 4]
    assert scorer.score_reached(heads, relations).entities.tolist() == [5]  # by walks alone, only the head itself
    assert scorer.paths_behind(5, 0, [3]) == [[]]
    torch.testing.assert_close(
        scorer.score_triples(torch.tensor([5]), torch.tensor([0]), torch.tensor([3])), torch.tensor([ranked[3]])
    )
