"""Rankings of a walker: their scores, what each costs, the blend, and the control with an untrained policy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hopwalk import api
from hopwalk.config.settings import changed
from hopwalk.learning.run import Run
from hopwalk.walker.beam import Beam
from hopwalk.walker.decoding import BLEND_WEIGHTS, POLICY, RANKINGS, RERANKED, SCORER, Decoder, blend, blend_name
from hopwalk.walker.environment import Queries
from hopwalk.walker.runs import build_environment, load_decoder, untrained
from hopwalk.walker.scorer_logits import ScorerLogits
from tests.support.villages import ALONE, VILLAGE, settings_of

HEADS, RELATIONS = VILLAGE.test.heads, VILLAGE.test.relations


@pytest.fixture
def decoder(trained_walker: Run) -> Decoder:
    return load_decoder(trained_walker)


def with_settings(decoder: Decoder, **values: Any) -> Decoder:
    settings = changed(decoder.settings, {f"walker.{name}": value for name, value in values.items()})
    return Decoder(decoder.environment, settings, decoder.scorer_logits, decoder.blend_weight)


class CountingDecoder(Decoder):
    """Counts the queries that it searches and scores."""

    num_searched = 0
    num_scored = 0

    def search(self, queries: Queries, scorer_logits: Tensor | None, **options: Any) -> Beam:
        self.num_searched += len(queries)
        return super().search(queries, scorer_logits, **options)

    def logits(self, queries: Queries) -> Tensor | None:
        self.num_scored += len(queries)
        return super().logits(queries)


# Scores


def test_all_rankings_come_from_one_search(decoder: Decoder):
    counting = CountingDecoder(decoder.environment, decoder.settings, decoder.scorer_logits, 0.5)
    found = counting.scores(HEADS, RELATIONS, BLEND_WEIGHTS)
    assert [*found] == counting.rankings(BLEND_WEIGHTS) == [POLICY, RERANKED, SCORER, *map(blend_name, BLEND_WEIGHTS)]
    assert {scores.shape for scores in found.values()} == {(len(HEADS), len(VILLAGE.entities))}
    assert (counting.num_searched, counting.num_scored) == (len(HEADS), len(HEADS))


@pytest.mark.parametrize(("ranking", "is_searched"), [(POLICY, True), (RERANKED, True), (SCORER, False)])
def test_some_rankings_are_those_of_all(decoder: Decoder, ranking: str, is_searched: bool):
    counting = CountingDecoder(decoder.environment, decoder.settings, decoder.scorer_logits)
    found = counting.scores(HEADS, RELATIONS, rankings=[ranking])
    assert [*found] == [ranking]
    np.testing.assert_array_equal(found[ranking], decoder.scores(HEADS, RELATIONS)[ranking])
    assert counting.num_searched == (len(HEADS) if is_searched else 0)


def test_an_evaluation_searches_every_query_once(copied: Path, monkeypatch: pytest.MonkeyPatch):
    searched: list[int] = []
    search = Decoder.search

    def counting_search(self: Decoder, queries: Queries, *arguments: Any, **options: Any) -> Beam:
        searched.append(len(queries))
        return search(self, queries, *arguments, **options)

    monkeypatch.setattr(Decoder, "search", counting_search)
    found = api.evaluate(copied)
    assert [*found] == [*RANKINGS]
    pairs = {(int(head), int(relation)) for head, relation in zip(HEADS, RELATIONS, strict=True)}
    assert sum(searched) == len(pairs)


def test_a_walker_without_a_scorer_is_ranked_by_its_policy():
    settings = settings_of(ALONE)
    decoder = Decoder(build_environment(VILLAGE, settings), settings, None)
    assert (decoder.rankings(BLEND_WEIGHTS), decoder.own_ranking) == ([POLICY], POLICY)
    assert [*decoder.scores(HEADS[:3], RELATIONS[:3])] == [POLICY]


def test_reranking_multiplies_by_the_probability_of_the_scorer(decoder: Decoder):
    weight = decoder.settings.walker.rerank_weight
    assert (weight, decoder.own_ranking) == (2.0, RERANKED)
    scores = decoder.scores(HEADS, RELATIONS)
    with np.errstate(divide="ignore"):
        log_probs = np.log(1 / (1 + np.exp(-scores[SCORER].astype(np.float64))))
    is_reached = scores[POLICY] > -np.inf
    assert 0 < is_reached.mean() < 1
    expected = scores[POLICY] + weight * log_probs
    np.testing.assert_allclose(scores[RERANKED][is_reached], expected[is_reached], rtol=1e-4, atol=1e-4)
    assert (scores[RERANKED][~is_reached] == -np.inf).all()


def test_without_a_weight_reranking_changes_nothing(decoder: Decoder):
    paper = with_settings(decoder, rerank_weight=0.0)
    assert paper.own_ranking == POLICY
    found = paper.scores(HEADS, RELATIONS)
    np.testing.assert_array_equal(found[RERANKED], found[POLICY])
    np.testing.assert_array_equal(found[POLICY], decoder.scores(HEADS, RELATIONS)[POLICY])


# The blend


def test_the_blend_of_a_beam_is_that_of_all_entities(decoder: Decoder):
    queries = Queries(*(torch.from_numpy(ids.astype(np.int64)) for ids in (HEADS, RELATIONS)))
    logits = decoder.logits(queries)
    assert logits is not None
    beam = decoder.search(queries, logits)
    of_all = blend(beam.all_scores(), logits, 0.7)
    of_beam = blend(beam.scores, logits.gather(1, beam.entities), 0.7)
    assert torch.equal(of_beam, of_all.gather(1, beam.entities))
    is_reached = beam.all_scores() > -torch.inf
    assert torch.equal(of_all[~is_reached], logits[~is_reached])  # entities that no path reaches keep their logit
    assert (of_all[is_reached] >= logits[is_reached]).all()
    found = decoder.scores(HEADS, RELATIONS, [0.7])[blend_name(0.7)]
    np.testing.assert_array_equal(found, of_all.numpy())


def test_blend_by_hand():
    paths, logits = torch.tensor([[-1.0, -torch.inf, -3.0], [-torch.inf] * 3]), torch.tensor([[0.5, 2.0, 1.0], [1.0, 2.0, 3.0]])
    assert blend(paths, logits, 0.5).tolist() == [[1.5, 2.0, 1.0], [1.0, 2.0, 3.0]]


@pytest.mark.parametrize("weights", [[0.0], [1e4]])
def test_a_blend_without_weight_is_the_scorer(decoder: Decoder, weights: Sequence[float]):
    found = decoder.scores(HEADS, RELATIONS, weights)
    assert np.array_equal(found[blend_name(weights[0])], found[SCORER]) == (weights == [0.0])


# The control


def test_the_control_has_another_policy_and_the_same_scorer(decoder: Decoder):
    control = untrained(decoder, VILLAGE)
    trained, random = decoder.scores(HEADS, RELATIONS, [0.5]), control.scores(HEADS, RELATIONS, [0.5])
    assert [*trained] == [*random]
    np.testing.assert_array_equal(trained[SCORER], random[SCORER])
    for ranking in (POLICY, RERANKED, blend_name(0.5)):
        assert not np.array_equal(trained[ranking], random[ranking])
    assert control.environment.graph is decoder.environment.graph
    assert not control.environment.policy.training
    again = untrained(decoder, VILLAGE).scores(HEADS, RELATIONS, [0.5])
    assert all(np.array_equal(random[name], again[name]) for name in random)  # the same control every time
    assert not np.array_equal(untrained(decoder, VILLAGE, seed=1).scores(HEADS, RELATIONS)[POLICY], random[POLICY])


def test_the_control_shows_what_the_policy_has_learnt(uncles_run: Path):
    found = api.evaluate(uncles_run, untrained_control=True)
    assert [*found] == ["policy", "untrained_policy"]
    assert found["policy"].tails.mrr > 0.9 > 0.5 > found["untrained_policy"].tails.mrr


# Batches


class OneBatch(Decoder):
    """Decodes all queries at once."""

    queries_at_once = 1000


def test_queries_are_decoded_in_batches_that_fit_into_memory(decoder: Decoder):
    wide = changed(decoder.settings, {"walk.beam": 4096})  # 4,096 walks at once: those of one query
    one_by_one = Decoder(decoder.environment, wide, decoder.scorer_logits)
    assert (one_by_one.queries_at_once, decoder.queries_at_once) == (1, 4096 // 32)
    together = OneBatch(decoder.environment, wide, decoder.scorer_logits).scores(HEADS, RELATIONS)
    for name, scores in one_by_one.scores(HEADS, RELATIONS).items():
        np.testing.assert_allclose(scores, together[name], rtol=1e-4, atol=1e-4)


def test_cached_logits_are_those_that_are_computed(trained_walker: Run):
    scorer = api.load_scorer(trained_walker.path / "scorer")
    cached, computed = ScorerLogits(scorer), ScorerLogits(scorer, most_cached_bytes=0)
    ids = [torch.from_numpy(column.astype(np.int64)) for column in (HEADS, RELATIONS)]
    assert torch.allclose(cached.of(*ids), computed.of(*ids), atol=1e-5)
