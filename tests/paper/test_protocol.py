"""The paper's dev queries of NELL-995."""

from typing import Any

import numpy as np
import pytest

import hopwalk
from hopwalk.data.triples import Triples
from hopwalk.learning.metrics import metrics, strata
from hopwalk.learning.ranking import Ranks
from hopwalk.paper.protocol import ALL, LEFT_OUT, NUM_DEV_QUERIES, with_papers_queries
from tests.support.results import walker_result


@pytest.mark.mirror
def test_queries_about_entities_without_a_fact_are_left_out():
    nell = hopwalk.load_dataset("nell-995")
    has_fact = np.isin(np.arange(len(nell.entities)), np.concatenate([nell.facts.heads, nell.facts.tails]))
    left_out = ~(has_fact[nell.valid.heads] & has_fact[nell.valid.tails])
    counts = {name: int((mask & left_out).sum()) for name, mask in strata(nell, nell.valid).items()}
    assert {ALL: int(left_out.sum())} | counts == LEFT_OUT["nell-995"]
    assert len(nell.valid) == NUM_DEV_QUERIES["nell-995"]


def test_numbers_without_them_are_those_of_the_other_queries():
    """543 ranks, infinite for the queries left out and for some others: metrics of the rest, computed directly."""
    generator = np.random.default_rng(0)
    ranks = generator.integers(1, 30, 543).astype(float)
    ranks[:110] = np.inf  # the first 102 are left out
    queries = Triples.of([(0, 0, 1)] * 543)
    found, expected = (metrics(Ranks(queries[rows], ranks[rows], ranks[rows])) for rows in (slice(None), slice(102, None)))
    numbers = {"tails": found.to_dict(), "strata": {}}
    content: dict[str, Any] = {
        "data": {"name": "nell-995"},
        "valid": {"policy": numbers},
        "history": [{"epoch": 1, "valid_mrr": found.mrr}],
    }
    result = with_papers_queries(walker_result("x", {}, **content))
    tails = result.numbers("valid")
    assert tails is not None and tails["tails"] == pytest.approx(expected.to_dict())
    assert result.history[0]["valid_mrr"] == pytest.approx(expected.mrr)


def test_other_data_sets_have_them_all():
    result = walker_result("x", {"policy": 0.5})
    assert with_papers_queries(result) is result
