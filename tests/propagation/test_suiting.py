"""Settings of propagation that suit a graph: how its dev facts are held out decides what training hides."""

import numpy as np

from hopwalk.data.dataset import Dataset
from hopwalk.propagation.suiting import suited_hiding, suited_propagation
from tests.support.helpers import Fact, dataset_of
from tests.support.villages import VILLAGE


def couples(count: int) -> list[Fact]:
    """Pairs of entities with two facts each, one in either direction."""
    return [fact for n in range(count) for fact in ((f"a{n}", "likes", f"b{n}"), (f"b{n}", "knows", f"a{n}"))]


def strangers(count: int, relation: str = "likes") -> list[Fact]:
    """Facts between entities that no other fact connects."""
    return [(f"a{n}", relation, f"b{n + 1}") for n in range(count)]


def test_pairs_without_another_fact_in_dev_hide_all_between():
    assert suited_hiding(dataset_of(couples(80), strangers(60))) == "between"


def test_queries_without_known_answers_in_dev_hide_them_all():
    train: list[Fact] = [(f"h{n}", "has", f"t{(n + shift) % 90}") for n in range(80) for shift in (0, 1)]
    held_out: list[Fact] = [(f"t{n}", "has", f"h{n}") for n in range(60)]
    assert suited_hiding(dataset_of(train, held_out)) == "query"


def test_a_random_split_hides_the_fact():
    order = np.random.default_rng(0).permutation(160)
    facts = [couples(80)[row] for row in order]
    assert suited_hiding(dataset_of(facts[:100], facts[100:])) == "fact"


def test_few_dev_facts_say_nothing():
    assert len(VILLAGE.valid) < 50 and suited_hiding(VILLAGE) == "fact"


def test_sparse_graphs_are_walked_further():
    def layers(dataset: Dataset) -> int:
        return int(suited_propagation(dataset)["propagation.layers"])

    dense = dataset_of([(f"e{one}", "r", f"e{other}") for one in range(25) for other in range(25) if one != other])
    assert (layers(dense), layers(dataset_of(couples(80)))) == (3, 5)
    assert suited_propagation(dense)["propagation.queries"] == 6000
