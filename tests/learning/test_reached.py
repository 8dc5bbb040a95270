"""Scores of what walks reach give the same numbers as the scores of all entities."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Ids, Triples
from hopwalk.errors import DivergedError
from hopwalk.learning.calibration import calibrate
from hopwalk.learning.ranking import rank_answers
from hopwalk.learning.reached import ReachedScores
from tests.learning.test_calibration import world_of

E = 6
NO_ANSWERS = KnownAnswers([Triples.of([])], E, 1)
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


# Ranks and candidates are those of the table


@st.composite
def reached_scores(draw: st.DrawFn) -> ReachedScores:
    """Scores of up to five queries with many ties."""
    seed, num_queries = draw(st.integers(0, 2**32 - 1)), draw(st.integers(1, 5))
    random = np.random.default_rng(seed)
    counts = random.integers(0, E + 1, num_queries)
    entities = [random.permutation(E)[:count] for count in counts]
    scores, unreached = (random.integers(-2, 3, size).astype(np.float32) for size in (counts.sum(), num_queries))
    return ReachedScores(np.append(0, np.cumsum(counts)), np.concatenate(entities).astype(np.int32), scores, unreached)


@given(
    reached_scores(), st.lists(st.tuples(st.integers(0, 4), st.integers(0, E - 1)), min_size=1, max_size=12), st.integers(0, 99)
)
def test_ranks_are_those_of_the_table(reached: ReachedScores, asked: list[tuple[int, int]], seed: int):
    """Query i is (i, 0, ?); some answers are known, and some are not reached."""
    queries = Triples.of([(row % len(reached), 0, tail) for row, tail in asked])
    random = np.random.default_rng(seed)
    facts = Triples.of(zip(random.integers(0, E, 8).tolist(), [0] * 8, random.integers(0, E, 8).tolist(), strict=True))
    known, table = KnownAnswers([facts], E, 1), reached.dense(E)

    def score_reached(heads: Ids, relations: Ids) -> ReachedScores:
        parts = [slice(reached.offsets[head], reached.offsets[head + 1]) for head in heads.tolist()]
        own = [ReachedScores(np.array([0, part.stop - part.start]), reached.entities[part], reached.scores[part], one)
               for part, one in zip(parts, reached.unreached[heads][:, None], strict=True)]  # fmt: skip
        return ReachedScores.concatenate(own)

    expected = rank_answers(lambda heads, relations: table[heads], queries, known, num_entities=E)
    for most_bytes in (2**28, 1):
        found = rank_answers(score_reached, queries, known, num_entities=E, most_bytes=most_bytes)
        assert np.array_equal(found.optimistic, expected.optimistic)
        assert np.array_equal(found.pessimistic, expected.pessimistic)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_are_refused(bad: float):
    reached = replace(REACHED, scores=np.array([1.0, bad, 3.5, 0.5, 4.0], dtype=np.float32))
    with pytest.raises(DivergedError):
        rank_answers(lambda *_: reached, Triples.of([(0, 0, 0), (1, 0, 0), (2, 0, 0)]), NO_ANSWERS, num_entities=E)


def test_calibration_is_that_of_the_table():
    """A quarter of 400 entities is reached; the most likely candidates, the sample and the fit are the same."""
    size, random = 400, np.random.default_rng(0)
    scores = 2 * random.standard_normal((size, size)).astype(np.float32) - 2
    is_reached = random.random((size, size)) < 0.25
    is_reached[0] = False
    scores[~is_reached] = -3
    is_true = random.random(scores.shape) < 1 / (1 + np.exp(-scores.astype(np.float64)))
    world, (rows, columns) = world_of(is_true, random.random(scores.shape) < 0.1), np.nonzero(is_reached)
    offsets = np.searchsorted(rows, np.arange(size + 1))

    def score_reached(heads: Ids, relations: Ids) -> ReachedScores:
        places = [np.arange(offsets[head], offsets[head + 1]) for head in heads]
        inner, counts = np.concatenate(places), [len(own) for own in places]
        found = scores[rows[inner], columns[inner]], np.full(len(heads), -3, dtype=np.float32)
        return ReachedScores(np.append(0, np.cumsum(counts)), columns[inner].astype(np.int32), *found)

    (expected, reliability), (found, again) = (calibrate(one, world) for one in (lambda heads, _: scores[heads], score_reached))
    assert reliability is not None and again is not None
    assert (found.slope, found.offset) == pytest.approx((expected.slope, expected.offset), rel=1e-6)
    assert found.is_relative == expected.is_relative
    assert again.top_error == pytest.approx(reliability.top_error, rel=1e-6) and again.bins == reliability.bins
