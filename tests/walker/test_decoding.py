"""From walks to ranked entities: scores, the control with an untrained policy, batches; and the reward's probabilities."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hopwalk import api
from hopwalk.config.settings import changed
from hopwalk.learning.run import Run
from hopwalk.walker.beam import Beam
from hopwalk.walker.decoding import Decoder
from hopwalk.walker.environment import Queries
from hopwalk.walker.runs import load_decoder, untrained
from hopwalk.walker.shaping import Shaping
from tests.support.villages import VILLAGE

HEADS, RELATIONS = VILLAGE.test.heads, VILLAGE.test.relations


@pytest.fixture
def decoder(trained_walker: Run) -> Decoder:
    return load_decoder(trained_walker)


# Scores


def test_scores_are_those_of_the_beam(decoder: Decoder):
    scores = decoder.scores(HEADS, RELATIONS)
    assert scores.shape == (len(HEADS), len(VILLAGE.entities))
    beam = decoder.search(Queries(*(torch.from_numpy(ids.astype(np.int64)) for ids in (HEADS, RELATIONS))))
    np.testing.assert_array_equal(scores, beam.all_scores().numpy())
    assert 0 < (scores > -np.inf).mean() < 1  # some entities are not reached
    assert scores.max() <= 0  # log-probabilities


def test_an_evaluation_searches_every_query_once(copied: Path, monkeypatch: pytest.MonkeyPatch):
    searched: list[int] = []
    search = Decoder.search

    def counting_search(self: Decoder, queries: Queries, *arguments: Any, **options: Any) -> Beam:
        searched.append(len(queries))
        return search(self, queries, *arguments, **options)

    monkeypatch.setattr(Decoder, "search", counting_search)
    api.evaluate(copied)
    pairs = {(int(head), int(relation)) for head, relation in zip(HEADS, RELATIONS, strict=True)}
    assert sum(searched) == len(pairs)


# The control


def test_the_control_has_another_policy(decoder: Decoder):
    control = untrained(decoder, VILLAGE)
    trained, random = decoder.scores(HEADS, RELATIONS), control.scores(HEADS, RELATIONS)
    assert not np.array_equal(trained, random)
    assert control.environment.graph is decoder.environment.graph
    assert not control.environment.policy.training
    again = untrained(decoder, VILLAGE).scores(HEADS, RELATIONS)
    assert np.array_equal(random, again)  # the same control every time
    assert not np.array_equal(untrained(decoder, VILLAGE, seed=1).scores(HEADS, RELATIONS), random)


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
    one_by_one = Decoder(decoder.environment, wide)
    assert (one_by_one.queries_at_once, decoder.queries_at_once) == (1, 4096 // 32)
    together = OneBatch(decoder.environment, wide).scores(HEADS, RELATIONS)
    np.testing.assert_allclose(one_by_one.scores(HEADS, RELATIONS), together, rtol=1e-4, atol=1e-4)


# The reward


@pytest.mark.parametrize("most_cached_bytes", [2**26, 0], ids=["cached", "computed"])
def test_the_reward_is_the_calibrated_probability_of_the_scorer(trained_walker: Run, most_cached_bytes: int):
    scorer = api.load_scorer(trained_walker.path / "scorer")
    ids = [torch.from_numpy(column.astype(np.int64)) for column in (HEADS, RELATIONS)]
    f = Shaping(scorer, most_cached_bytes=most_cached_bytes).f(*ids)
    with torch.inference_mode():
        assert torch.allclose(f, scorer.probability_of_all_tails(*ids), atol=1e-6)
    assert 0 <= float(f.min()) < float(f.max()) <= 1 and not f.requires_grad
