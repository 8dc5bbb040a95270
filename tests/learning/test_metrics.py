"""Metrics by hand, strata with the shares of the paper, and bootstrap intervals."""

import numpy as np
import pytest

import hopwalk
from hopwalk.data.triples import Triples
from hopwalk.learning.metrics import average_precision, bootstrap_interval, mean_average_precision, metrics, strata
from hopwalk.learning.ranking import Ranks

INF = float("inf")


def ranks_of(queries: list[tuple[int, int, int]], values: list[float]) -> Ranks:
    array = np.array(values, dtype=float)
    return Ranks(Triples.of(queries), array, array)


def test_metrics_by_hand():
    found = metrics(ranks_of([(0, 0, 1)] * 5, [1, 2, 4, 20, INF]))
    assert found.mrr == pytest.approx((1 + 1 / 2 + 1 / 4 + 1 / 20 + 0) / 5)
    assert (found.hits_at_1, found.hits_at_3, found.hits_at_10, found.unreached) == (0.2, 0.4, 0.6, 0.2)
    assert found.to_dict()["hits@10"] == 0.6
    assert metrics(ranks_of([], [])).to_dict()["mrr"] is None


def test_average_precision_by_hand():
    # (0, 0, ?) has its answers at filtered ranks 1 and 3: in one list they stand at places 1 and 4.
    ranks = ranks_of([(0, 0, 1), (1, 0, 2), (0, 0, 3), (2, 1, 0)], [3, 2, 1, INF])
    relations, values = average_precision(ranks)
    assert relations.tolist() == [0, 0, 1]
    assert values == pytest.approx([(1 / 1 + 2 / 4) / 2, 1 / 2, 0])
    assert mean_average_precision(ranks) == pytest.approx(((0.75 + 0.5) / 2 + 0) / 2)


# The shares of dev queries in the paper's Tables 4 and 5.
PAPER = {
    "umls": (99.1, 97.2),
    "kinship": (100, 96.8),
    "fb15k-237": (76.6, 76.1),
    "wn18rr": (52.8, 41.8),
    "nell-995": (12.9, 15.3),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("umls", "kinship") else [pytest.mark.mirror]) for name in PAPER]
)
def test_strata_have_the_shares_of_the_paper(name: str):
    dataset = hopwalk.load_dataset(name)
    masks = strata(dataset, dataset.valid)
    assert [round(100 * float(masks[stratum].mean()), 1) for stratum in ("to-many", "seen")] == [*PAPER[name]]
    assert (masks["to-many"] ^ masks["to-one"]).all()
    assert (masks["seen"] ^ masks["unseen"]).all()


def test_bootstrap():
    values = np.random.default_rng(1).random(400)
    low, high = bootstrap_interval(values)
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.15)  # the normal approximation
    assert bootstrap_interval(values) == (low, high)
