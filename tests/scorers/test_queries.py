"""Training queries of scorers against a dictionary, and their batches."""

import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hopwalk.scorers.queries import TrainingQueries
from tests.support.helpers import FAMILY, dataset_of

FACTS = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("pqr"), st.sampled_from("abcdef")), min_size=1, max_size=40)


@hypothesis_settings(max_examples=60)
@given(FACTS, st.integers(1, 30), st.integers(0, 2**32))
def test_queries_agree_with_a_dictionary(facts, size: int, seed: int):
    dataset = dataset_of(facts)
    num_relations = len(dataset.relations)
    expected: dict[tuple[int, int], set[int]] = {}
    for head, relation, tail in dataset.facts.array().tolist():
        expected.setdefault((head, relation), set()).add(tail)
        expected.setdefault((tail, relation + num_relations), set()).add(head)
    queries = TrainingQueries.of(dataset)
    pairs = [*zip(queries.heads.tolist(), queries.relations.tolist(), strict=True)]
    assert len(queries) == len(expected)
    assert pairs == sorted(expected)  # grouped by head
    for number, pair in enumerate(pairs):
        answers = queries.answers[queries.offsets[number] : queries.offsets[number + 1]].tolist()
        assert len(answers) == len({*answers})
        assert {*answers} == expected[pair]
    batches = [*queries.batches(size, torch.Generator().manual_seed(seed))]
    found: dict[tuple[int, int], set[int]] = {}
    for batch in batches:
        batch_pairs = [*zip(batch.heads.tolist(), batch.relations.tolist(), strict=True)]
        assert not found.keys() & {*batch_pairs}
        for query, answer in zip(batch.queries.tolist(), batch.answers.tolist(), strict=True):
            assert answer not in found.setdefault(batch_pairs[query], set())
            found[batch_pairs[query]].add(answer)
    assert found == expected
    again = [*queries.batches(size, torch.Generator().manual_seed(seed))]
    assert [batch.answers.tolist() for batch in again] == [batch.answers.tolist() for batch in batches]


def test_the_order_of_queries_is_random():
    queries = TrainingQueries.of(dataset_of(FAMILY))
    orders = {tuple(next(queries.batches(100, torch.Generator().manual_seed(seed))).heads.tolist()) for seed in range(5)}
    assert len(orders) == 5
    sizes = [len(batch.heads) for batch in queries.batches(4, torch.Generator().manual_seed(0))]
    assert max(sizes) <= 5
    assert sum(sizes) == len(queries) == 11


def test_queries_are_those_of_the_graph_not_of_the_training_split():
    dataset = dataset_of([("a", "r", "b")], facts=[("a", "r", "b"), ("b", "q", "a")])
    assert TrainingQueries.of(dataset).heads.tolist() == [0, 0, 1, 1]
    assert TrainingQueries.of(dataset).relations.tolist() == [1, 2, 0, 3]
