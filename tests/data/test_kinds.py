"""Which entities could be heads of a relation: by the relations that its known heads have."""

import numpy as np
import pytest

from hopwalk.data import kinds
from hopwalk.data.dataset import Dataset
from hopwalk.data.kinds import Kinds
from tests.support.helpers import FAMILY, dataset_of
from tests.support.villages import VILLAGE


def heads(dataset: Dataset, relation: str, *, inverse: bool = False) -> set[str]:
    relation_id = dataset.relations.id(relation)
    found = Kinds(dataset).heads(dataset.relation_ids.inverse(relation_id) if inverse else relation_id)
    assert found.dtype == np.int32 and (np.diff(found) > 0).all()
    return {dataset.entities[one] for one in found.tolist()}


def clinic(num_drugs: int = 30) -> Dataset:
    """Drugs have a target and mostly treat a disease; genes have a pathway. drug 0 and drug 1 treat nothing yet."""
    facts = []
    for number in range(num_drugs):
        facts += [(f"drug {number}", "targets", f"gene {number % 7}"), (f"gene {number % 7}", "in", f"pathway {number % 3}")]
        facts += [(f"drug {number}", "treats", f"disease {number % 4}")] if number > 1 else []
        facts += [(f"disease {number % 4}", "felt_as", f"symptom {number % 5}")]
    return dataset_of(facts)


def test_who_is_like_the_known_heads_could_be_one():
    found = heads(clinic(), "treats")
    assert found == {f"drug {number}" for number in range(30)}
    assert heads(clinic(), "treats", inverse=True) == {f"disease {number}" for number in range(4)}


def test_log_odds_by_hand():
    """Heads of mother_of are ann and cat, the others are three; counts of both for every other relation."""
    family = dataset_of(FAMILY)
    column = np.isin(np.arange(len(family.entities)), [family.entities.id(name) for name in ("ann", "cat")])
    found = dict(zip(family.entities, Kinds(family)._typical(family.relations.id("mother_of"), column), strict=True))

    def ratio(has: bool, heads: int, others: int) -> float:
        share, of_others = (heads + 1) / (2 + 2), (others + 1) / (3 + 2)
        return float(np.log(share / of_others) if has else np.log((1 - share) / (1 - of_others)))

    counts = {"tail of mother_of": (1, 2), "brother_of": (0, 1), "tail of brother_of": (1, 0), "uncle_of": (0, 1)}
    counts |= {"tail of uncle_of": (0, 1), "knows": (0, 1), "tail of knows": (1, 0)}
    has = {
        "ann": {"tail of knows"},
        "bob": {"tail of mother_of", "brother_of", "uncle_of"},
        "cat": {"tail of mother_of", "tail of brother_of"},
        "dan": {"tail of mother_of", "tail of uncle_of"},
        "eve": {"knows"},
    }
    assert found == pytest.approx({name: sum(ratio(way in own, *counts[way]) for way in counts) for name, own in has.items()})


def test_known_heads_are_always_among_them():
    for relation in range(2 * len(VILLAGE.relations)):
        ids = VILLAGE.relation_ids
        is_inverse = bool(ids.is_inverse(relation))
        rows = VILLAGE.facts.relations == (ids.inverse(relation) if is_inverse else relation)
        known = {*(VILLAGE.facts.tails if is_inverse else VILLAGE.facts.heads)[rows].tolist()}
        assert known <= {*Kinds(VILLAGE).heads(relation).tolist()}
    assert heads(VILLAGE, "uncle") == {f"child {number}" for number in range(32)}  # those without a known uncle too


def test_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kinds, "FEWEST", 29)
    monkeypatch.setattr(kinds, "TIMES_KNOWN", 1)
    assert len(heads(clinic(), "treats")) == 29


def test_a_relation_without_facts_has_no_heads():
    dataset = dataset_of([("a", "r", "b"), ("b", "r", "c")], valid=[("a", "s", "c")])
    assert heads(dataset, "s") == set()
    assert "isolated" not in heads(dataset_of([("a", "r", "b")], test=[("isolated", "r", "b")]), "r")


def test_who_is_alike_needs_one_relation_in_common_with_a_tenth():
    """A drug of which only its target is known is like the drugs; a gene is not; whoever has the relation is alike."""
    drugs = [(f"drug{i}", "inhibits", f"gene{i}") for i in range(20)] + [(f"drug{i}", "treats", "flu") for i in range(3)]
    data = dataset_of(drugs)
    found, treats = Kinds(data), data.relations.id("treats")
    assert found.is_alike(data.entities.id("drug19"), treats) and found.is_alike(data.entities.id("drug0"), treats)
    assert not found.is_alike(data.entities.id("gene3"), treats)
    assert found.is_alike(data.entities.id("flu"), int(data.relation_ids.inverse(treats)))
