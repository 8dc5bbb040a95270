"""The scorer of walks: ragged scores are the dense ones, hidden facts are not walked, and the graph can be exchanged."""

import numpy as np
import pytest
import torch

from hopwalk.config.settings import PropagationSettings
from hopwalk.data.triples import Triples
from hopwalk.errors import DataError
from hopwalk.learning.calibration import Calibration
from hopwalk.learning.scorer import PathScorer
from hopwalk.propagation import model as model_module
from hopwalk.propagation.frontier import Capacity
from hopwalk.propagation.scorer import PropagationScorer

E, R = 60, 3
SETTINGS = PropagationSettings(layers=2, width=8, attention_width=4)
CHAIN = Triples.of([(0, 0, 1), (1, 1, 2), (2, 2, 3)])


def random_facts(num_facts: int = 120, num_entities: int = E) -> Triples:
    random = np.random.default_rng(3)
    columns = [random.integers(0, size, num_facts) for size in (num_entities, R, num_entities)]
    return Triples(*np.unique(np.stack(columns, axis=1), axis=0).astype(np.int32).T.copy())


def scorer_of(facts: Triples | None = None, num_entities: int = E) -> PropagationScorer:
    scorer = PropagationScorer(num_entities, R, SETTINGS, random_facts() if facts is None else facts)
    with torch.no_grad():
        scorer.model.unreached.copy_(torch.arange(2.0 * R) - 1)
    return scorer


def queries(num: int) -> tuple[np.ndarray, np.ndarray]:
    return (np.arange(num) % E).astype(np.int32), (np.arange(num) % (2 * R)).astype(np.int32)


def test_reached_scores_are_those_of_all_tails():
    scorer = scorer_of()
    assert isinstance(scorer, PathScorer) and scorer.max_hops == 2
    heads, relations = queries(150)  # more than are scored at once
    heads.setflags(write=False)  # as those of a data set
    reached = scorer.score_reached(heads, relations)
    assert np.array_equal(reached.dense(E), scorer.numpy_scores(heads, relations))
    assert 1 <= reached.num_reached.min() < reached.num_reached.max() < E
    assert np.array_equal(reached.entities[reached.offsets[:-1]], heads)  # the head is the first that is reached


def test_little_room_for_scores_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    heads, relations = queries(40)
    expected = scorer_of().score_reached(heads, relations)
    monkeypatch.setattr(model_module, "ROOM_FOR_SCORES", 1)
    monkeypatch.setattr(model_module, "FIRST_CAPACITY", Capacity(70, 20, 20, 20))
    scorer = scorer_of()
    scorer.engine = model_module.Engine(scorer.engine.graph, SETTINGS, num_threads=3)
    found = scorer.score_reached(heads, relations)
    assert np.array_equal(found.entities, expected.entities) and np.array_equal(found.scores, expected.scores)


def test_hidden_facts_are_not_walked_in_either_direction():
    scorer = scorer_of(CHAIN, 4)
    heads, relations = np.array([0, 0, 2, 2, 0], dtype=np.int32), np.array([1, 1, 1, 1, 1], dtype=np.int32)
    nothing, first, inverse = Triples.of([]), Triples.of([(0, 0, 1)]), Triples.of([(1, R, 0)])
    unknown = Triples.of([(3, 1, 0)])
    reached = scorer.score_reached(heads, relations, [nothing, first, Triples.concatenate([first, first]), inverse, unknown])
    found = [set(reached.entities[start:end].tolist()) for start, end in zip(reached.offsets, reached.offsets[1:], strict=False)]
    assert found == [{0, 1, 2}, {0}, {1, 2, 3}, {1, 2, 3}, {0, 1, 2}]
    with pytest.raises(ValueError, match="for each of 5 queries, got 1"):
        scorer.score_reached(heads, relations, [first])


def test_scores_of_triples_do_not_need_all_tails():
    scorer = scorer_of()
    heads, relations = (torch.from_numpy(column).long() for column in queries(30))
    tails = torch.arange(30) * 7 % E
    every = scorer.score_all_tails(heads, relations)
    assert torch.allclose(scorer.score_triples(heads, relations, tails), every[torch.arange(30), tails], atol=1e-5)


@pytest.mark.parametrize("calibration", [Calibration(2.0, -3.0), Calibration(0.7, 1.0, is_relative=True)])
def test_log_odds_of_reached_are_those_of_all_tails(calibration: Calibration):
    scorer = scorer_of()
    scorer.calibration = calibration
    heads, relations = queries(12)
    expected = scorer.log_odds_of_all_tails(torch.from_numpy(heads).long(), torch.from_numpy(relations).long())
    assert np.allclose(
        scorer.log_odds_of_reached(scorer.score_reached(heads, relations)).dense(E), expected.detach().numpy(), atol=1e-5
    )


def test_another_graph_has_the_same_model():
    scorer = scorer_of(CHAIN, 4)
    scorer.calibration = Calibration(2.0, 1.0)
    renamed = Triples(CHAIN.heads + 10, CHAIN.relations, CHAIN.tails + 10)
    other = scorer.with_graph(renamed, 20)
    heads, relations = np.array([0, 1], dtype=np.int32), np.array([2, 4], dtype=np.int32)
    before, after = scorer.score_reached(heads, relations), other.score_reached(heads + 10, relations)
    assert np.array_equal(after.scores, before.scores) and np.array_equal(after.entities, before.entities + 10)
    assert other.num_entities == 20 and other.calibration == scorer.calibration
    assert len(other.score_reached(heads, relations).entities) == 2  # alone in the new graph
    with torch.no_grad():
        scorer.model.readout_bias.add_(1.0)
    assert not np.array_equal(other.score_reached(heads + 10, relations).scores, before.scores)


def test_a_graph_with_relations_or_entities_that_are_not_counted():
    for facts in (Triples.of([(0, R, 1)]), Triples.of([(0, 0, 7)])):
        with pytest.raises(DataError, match="more than 5 entities or more than the 3 relations of training"):
            scorer_of().with_graph(facts, 5)
