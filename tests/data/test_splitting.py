"""Splits: training has every entity and relation, and the seed decides."""

import numpy as np
import pytest

import hopwalk
from hopwalk.config.settings import SplitSettings
from hopwalk.errors import DataError
from tests.support.helpers import FAMILY, dataset_of, facts_of, finding


class TestSplit:
    @pytest.mark.parametrize("seed", range(5))
    def test_training_has_every_held_out_entity_and_relation(self, seed: int):
        umls = hopwalk.load_dataset("umls")
        whole = dataset_of(umls.labels_of(umls.all_facts()))
        split = hopwalk.split_dataset(whole, SplitSettings(valid=0.2, test=0.3, seed=seed))
        assert [len(split.valid), len(split.test)] == [1306, 1959]
        assert facts_of(split, "train") | facts_of(split, "valid") | facts_of(split, "test") == facts_of(whole)
        assert len(split.train) + len(split.valid) + len(split.test) == len(whole.facts)
        assert {*np.concatenate([split.train.heads, split.train.tails]).tolist()} == {*range(135)}
        assert {*split.train.relations.tolist()} == {*range(46)}

    def test_the_same_seed_gives_the_same_split(self):
        umls = dataset_of(hopwalk.load_dataset("umls").labels_of(hopwalk.load_dataset("umls").train))
        first, same, other = (hopwalk.split_dataset(umls, SplitSettings(seed=seed)) for seed in (1, 1, 2))
        assert first.fingerprint == same.fingerprint != other.fingerprint

    def test_too_few_to_hold_out(self):
        split = hopwalk.split_dataset(dataset_of(FAMILY), SplitSettings(valid=0.4, test=0.4))
        assert finding(split, "few-to-hold-out").count == 2 == len(split.valid) + len(split.test)
        assert len(split.entities) == len({*np.concatenate([split.train.heads, split.train.tails]).tolist()})

    def test_of_few_facts_at_least_one_is_held_out(self):
        split = hopwalk.split_dataset(dataset_of(FAMILY), SplitSettings(valid=0.1, test=0.1))
        assert (len(split.valid), len(split.test)) == (1, 1)
        alone = hopwalk.split_dataset(dataset_of(FAMILY), SplitSettings(valid=0, test=0.1))
        assert (len(alone.valid), len(alone.test)) == (0, 1)

    def test_all_that_can_be_held_out_is_held_out(self):
        triangle = dataset_of([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a")])
        split = hopwalk.split_dataset(triangle, SplitSettings(valid=0.3, test=0.3))
        assert (len(split.valid), len(split.test)) == (0, 1)

    def test_refusals(self):
        with pytest.raises(DataError, match=r"split\.valid = 0\.5 and split\.test = 0\.5 are not valid"):
            hopwalk.split_dataset(dataset_of(FAMILY), SplitSettings(valid=0.5, test=0.5))
        with pytest.raises(DataError, match="umls is already split"):
            hopwalk.split_dataset(hopwalk.load_dataset("umls"))


def chain(length: int):
    """Facts that all share two entities with others, so that all but a few can be held out."""
    return dataset_of([(f"e{number % 50}", f"r{number // 2500}", f"e{number // 50 % 50}") for number in range(length)])


class TestHoldOut:
    @pytest.mark.parametrize(("facts", "expected"), [(2400, 120), (1200, 100), (600, 60), (19, 1), (9, 0)])
    def test_a_twentieth_but_enough_and_at_most_a_tenth(self, facts: int, expected: int):
        whole = chain(facts)
        found = hopwalk.hold_out(whole, 0.05)
        assert (len(found.valid), len(found.test)) == (expected, 0)
        assert facts_of(found, "train") | facts_of(found, "valid") == facts_of(whole) and found.findings == whole.findings

    def test_no_more_than_is_of_use(self):
        assert len(hopwalk.hold_out(chain(2500 * 50), 0.05).valid) == 5000

    def test_what_is_split_or_not_wanted_stays_as_it_is(self):
        whole, split = chain(500), dataset_of(FAMILY[:-1], valid=FAMILY[-1:])
        assert hopwalk.hold_out(whole, 0.0) is whole
        assert hopwalk.hold_out(split, 0.05) is split
        assert facts_of(hopwalk.hold_out(whole, 0.05, seed=1), "valid") != facts_of(hopwalk.hold_out(whole, 0.05), "valid")
