"""Scores of what walks reach give the same numbers as the scores of all entities."""

from dataclasses import replace

import numpy as np
import pytest

from hopwalk.learning.reached import ReachedScores

E = 6
REACHED = ReachedScores(
    offsets=np.array([0, 3, 3, 5]),
    entities=np.array([4, 0, 2, 5, 1], dtype=np.int32),
    scores=np.array([1.0, -2.0, 3.5, 0.5, 40.0], dtype=np.float32),
    unreached=np.array([-1.0, 2.0, 0.0], dtype=np.float32),
)
DENSE = np.array([[-2, -1, 3.5, -1, 1, -1], [2] * 6, [0, 40, 0, 0, 0, 0.5]], dtype=np.float32)
NOTHING = replace(
    REACHED, offsets=REACHED.offsets[:1], **{name: getattr(REACHED, name)[:0] for name in ("entities", "scores", "unreached")}
)


def test_by_hand():
    assert len(REACHED) == 3 and REACHED.num_reached.tolist() == [3, 0, 2] and REACHED.rows.tolist() == [0, 0, 0, 2, 2]
    assert np.array_equal(REACHED.dense(E), DENSE)


def test_scores_of_pairs_are_those_of_the_table():
    rows, entities = np.repeat(np.arange(3), E), np.tile(np.arange(E), 3)
    assert np.array_equal(REACHED.scores_of(rows, entities), DENSE.reshape(-1))
    assert REACHED.find(np.array([0, 0, 1, 2]), np.array([2, 3, 2, 5])).tolist() == [2, -1, -1, 3]


def test_nothing_reached_at_all():
    empty = ReachedScores(np.zeros(3, dtype=np.int64), REACHED.entities[:0], REACHED.scores[:0], REACHED.unreached[:2])
    assert empty.scores_of(np.array([1, 0]), np.array([3, 3])).tolist() == [2.0, -1.0]


def test_normalisers_are_those_of_the_softmax():
    expected = np.log(np.exp(DENSE.astype(np.float64)).sum(axis=1))
    assert REACHED.log_normalisers(E) == pytest.approx(expected, abs=1e-9)


def test_parts_together_are_the_whole():
    both = ReachedScores.concatenate([REACHED, NOTHING, REACHED])
    assert np.array_equal(both.dense(E), np.concatenate([DENSE, DENSE]))
    assert len(ReachedScores.concatenate([])) == 0
