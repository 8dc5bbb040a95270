"""Ranks worked out by hand, against a plain loop, and against PyKEEN's evaluator."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hopwalk
from hopwalk.cli.console import CountBar
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Triples
from hopwalk.errors import HopwalkError
from hopwalk.learning.ranking import (
    Ranks,
    filtered_answers,
    average_precision,
    bootstrap_interval,
    mean_average_precision,
    metrics,
    split_queries,
    rank_answers,
    strata,
    watched,
)
from tests.support.helpers import FAMILY, dataset_of

INF = float("inf")
E, R = 6, 2


def known_of(*facts: tuple[int, int, int]) -> KnownAnswers:
    return KnownAnswers([Triples.of(facts)], E, R)


def rank(scores: list[float], answer: int, *known: int) -> tuple[float, float, float]:
    """The optimistic, realistic and pessimistic rank of an answer to (0, 0, ?)."""
    table = np.array([scores], dtype=np.float32)
    facts = [(0, 0, tail) for tail in known]
    ranks = rank_answers(lambda heads, relations: table, Triples.of([(0, 0, answer)]), known_of(*facts), num_entities=E)
    return ranks.optimistic[0], ranks.realistic[0], ranks.pessimistic[0]


def test_by_hand():
    assert rank([9, 1, 5, 7, 3, 8], 3) == (3, 3, 3)
    assert rank([9, 1, 5, 7, 3, 8], 3, 0) == (2, 2, 2)  # the known answer 0 is left out
    assert rank([9, 1, 5, 7, 3, 8], 3, 0, 3, 5) == (1, 1, 1)  # the answer itself may be known
    assert rank([7, 7, 5, 7, 7, 8], 3) == (2, 3.5, 5)
    assert rank([7, 7, 5, 7, 7, 8], 3, 0, 1) == (2, 2.5, 3)
    assert rank([1, 1, 1, 1, 1, 1], 2) == (1, 3.5, 6)  # a model that knows nothing is in the middle, not first


def test_an_answer_that_is_not_reached_has_no_rank():
    assert rank([1, 1, 1, -INF, 1, 1], 3) == (INF, INF, INF)
    assert rank([-INF, 1, 1, 2, -INF, 1], 3) == (1, 1, 1)


def test_scores_that_are_no_numbers_are_refused():
    for bad in (np.nan, np.inf):
        with pytest.raises(HopwalkError, match="not a finite number"):
            rank([1, 1, 1, bad, 1, 1], 3)


@pytest.mark.parametrize("scores", [[np.nan, 1, 1, 2, 1, 1], [INF, 1, 1, 2, 1, np.nan], [1, np.nan, 1, -INF, 1, 1]])
def test_others_that_have_no_number_do_not_count_as_lower(scores: list[float]):
    with pytest.raises(HopwalkError, match="not a finite number"):
        rank(scores, 3)


def test_infinite_scores_of_others_are_compared():
    assert rank([INF, 1, -INF, 2, 1, 1], 3) == (2, 2, 2)


def test_a_bar_counts_anew_if_something_else_is_counted():
    with CountBar() as bar:
        for done in (5, 10, 5):
            bar.show(done, 10, "")
        (task,) = bar._bar.tasks
        assert not task.finished
        assert task.completed == 5


def test_whoever_watches_is_told_how_far_it_has_come():
    told: list[tuple[int, int]] = []
    asked = Triples.of([(head, 0, tail) for head in range(5) for tail in range(2)])

    def ranked() -> None:
        rank_answers(
            lambda heads, _: np.zeros((len(heads), E), dtype=np.float32),
            asked,
            known_of(),
            num_entities=E,
            most_bytes=2 * 4 * 2 * E,
        )

    with watched(lambda done, total: told.append((done, total))):
        ranked()
    assert told == [(2, 5), (4, 5), (5, 5)]  # equal questions count once
    ranked()
    assert len(told) == 3


TRIPLES = st.lists(st.tuples(st.integers(0, E - 1), st.integers(0, 2 * R - 1), st.integers(0, E - 1)), min_size=1, max_size=30)


@settings(deadline=None, max_examples=60)
@given(TRIPLES, TRIPLES, st.integers(0, 2**32 - 1), st.sampled_from([1, 100, 2**28]))
def test_agrees_with_a_plain_loop(asked, known, seed: int, most_bytes: int):
    scores = np.random.default_rng(seed).integers(0, 4, (E, 2 * R, E)).astype(np.float32)  # few values, many ties
    num_calls = 0

    def score_all_tails(heads: np.ndarray, relations: np.ndarray) -> np.ndarray:
        nonlocal num_calls
        num_calls += len(heads)
        chosen: np.ndarray = scores[heads, relations]
        return chosen

    facts = KnownAnswers([Triples.of((h, r, t) for h, r, t in known if r < R)], E, R)
    ranks = rank_answers(score_all_tails, Triples.of(asked), facts, num_entities=E, most_bytes=most_bytes)
    assert num_calls == len({(head, relation) for head, relation, _ in asked})
    true = {(h, r, t) for h, r, t in known if r < R} | {(t, r + R, h) for h, r, t in known if r < R} | {*asked}
    for number, (head, relation, tail) in enumerate(asked):
        own, row = scores[head, relation, tail], scores[head, relation]
        others = [row[other] for other in range(E) if (head, relation, other) not in true]
        assert ranks.optimistic[number] == 1 + sum(other > own for other in others)
        assert ranks.pessimistic[number] == 1 + sum(other >= own for other in others)


@pytest.mark.filterwarnings("ignore")
def test_agrees_with_pykeen():
    import torch
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models import DistMult

    umls = hopwalk.load_dataset("umls")
    theirs = hopwalk.to_pykeen(umls)
    model = DistMult(triples_factory=theirs.training, embedding_dim=8, random_seed=0)
    results = RankBasedEvaluator().evaluate(
        model=model,
        mapped_triples=theirs.testing.mapped_triples,
        additional_filter_triples=[theirs.training.mapped_triples, theirs.validation.mapped_triples],
        use_tqdm=False,
    )

    def score_all_tails(heads: np.ndarray, relations: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            # DistMult is the same in both directions, so an inverse relation scores as the relation itself.
            pairs = torch.from_numpy(np.stack([heads, relations % len(umls.relations)], axis=1).astype(np.int64))
            return model.score_t(pairs).numpy()

    known = filtered_answers(umls, "test")
    for directions, side in (("tails", "tail"), ("both", "both")):
        ranks = rank_answers(score_all_tails, split_queries(umls, "test", directions), known, num_entities=135)  # type: ignore[arg-type]
        ours = metrics(ranks)
        for kind, value in (("realistic", ours.mrr), ("pessimistic", ours.mrr_pessimistic), ("optimistic", ours.mrr_optimistic)):
            assert value == pytest.approx(results.get_metric(f"{side}.{kind}.inverse_harmonic_mean_rank"), abs=1e-6)
        assert ours.hits_at_10 == pytest.approx(results.get_metric(f"{side}.realistic.hits_at_10"), abs=1e-6)


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


def test_queries_in_both_directions():
    family = dataset_of(FAMILY, test=[("ann", "knows", "dan")])
    assert split_queries(family, "test").array().tolist() == [[0, 1, 3]]
    assert split_queries(family, "test", "both").array().tolist() == [[0, 1, 3], [3, 5, 0]]


def test_test_facts_are_unknown_on_dev_unless_the_graph_is_complete():
    family = dataset_of(FAMILY, valid=[("ann", "knows", "dan")], test=[("ann", "knows", "bob")])
    ids = [np.array([id_], dtype=np.int32) for id_ in (0, 1, 1)]  # ann knows bob
    assert not filtered_answers(family, "valid").contains(*ids)
    assert filtered_answers(family, "valid", complete=True).contains(*ids)
    assert filtered_answers(family, "test").contains(*ids)


# The shares of dev questions that the paper prints in Tables 4 and 5.
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
