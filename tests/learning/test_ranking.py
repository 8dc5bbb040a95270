"""Ranks by hand, against a plain loop, and against PyKEEN's evaluator."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hopwalk
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Triples
from hopwalk.errors import HopwalkError
from hopwalk.learning.metrics import metrics
from hopwalk.learning.ranking import filtered_answers, rank_answers, report_progress, split_queries
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
    assert rank([9, 1, 5, 7, 3, 8], 3, 0) == (2, 2, 2)  # the known answer 0 is filtered
    assert rank([9, 1, 5, 7, 3, 8], 3, 0, 3, 5) == (1, 1, 1)  # the answer itself may be known
    assert rank([7, 7, 5, 7, 7, 8], 3) == (2, 3.5, 5)
    assert rank([7, 7, 5, 7, 7, 8], 3, 0, 1) == (2, 2.5, 3)
    assert rank([1, 1, 1, 1, 1, 1], 2) == (1, 3.5, 6)  # a model without knowledge has a rank in the middle, not the first


def test_an_answer_that_is_not_reached_has_no_rank():
    assert rank([1, 1, 1, -INF, 1, 1], 3) == (INF, INF, INF)
    assert rank([-INF, 1, 1, 2, -INF, 1], 3) == (1, 1, 1)


def test_scores_that_are_not_finite_are_refused():
    for bad in (np.nan, np.inf):
        with pytest.raises(HopwalkError, match="the model diverged: a score is not finite"):
            rank([1, 1, 1, bad, 1, 1], 3)


@pytest.mark.parametrize("scores", [[np.nan, 1, 1, 2, 1, 1], [INF, 1, 1, 2, 1, np.nan], [1, np.nan, 1, -INF, 1, 1]])
def test_a_nan_of_another_entity_does_not_count_as_a_low_score(scores: list[float]):
    with pytest.raises(HopwalkError, match="the model diverged: a score is not finite"):
        rank(scores, 3)


def test_infinite_scores_of_others_are_compared():
    assert rank([INF, 1, -INF, 2, 1, 1], 3) == (2, 2, 2)


def test_progress_is_reported():
    reported: list[tuple[int, int]] = []
    queries = Triples.of([(head, 0, tail) for head in range(5) for tail in range(2)])

    def rank_queries() -> None:
        rank_answers(
            lambda heads, _: np.zeros((len(heads), E), dtype=np.float32),
            queries,
            known_of(),
            num_entities=E,
            most_bytes=2 * 4 * 2 * E,
        )

    with report_progress(lambda done, total: reported.append((done, total))):
        rank_queries()
    assert reported == [(2, 5), (4, 5), (5, 5)]  # equal queries count once
    rank_queries()
    assert len(reported) == 3


TRIPLES = st.lists(st.tuples(st.integers(0, E - 1), st.integers(0, 2 * R - 1), st.integers(0, E - 1)), min_size=1, max_size=30)


@settings(max_examples=60)
@given(TRIPLES, TRIPLES, st.integers(0, 2**32 - 1), st.sampled_from([1, 100, 2**28]))
def test_agrees_with_a_plain_loop(queries, known, seed: int, most_bytes: int):
    scores = np.random.default_rng(seed).integers(0, 4, (E, 2 * R, E)).astype(np.float32)  # few values, many ties
    num_calls = 0

    def score_all_tails(heads: np.ndarray, relations: np.ndarray) -> np.ndarray:
        nonlocal num_calls
        num_calls += len(heads)
        chosen: np.ndarray = scores[heads, relations]
        return chosen

    facts = KnownAnswers([Triples.of((h, r, t) for h, r, t in known if r < R)], E, R)
    ranks = rank_answers(score_all_tails, Triples.of(queries), facts, num_entities=E, most_bytes=most_bytes)
    assert num_calls == len({(head, relation) for head, relation, _ in queries})
    true = {(h, r, t) for h, r, t in known if r < R} | {(t, r + R, h) for h, r, t in known if r < R} | {*queries}
    for number, (head, relation, tail) in enumerate(queries):
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
