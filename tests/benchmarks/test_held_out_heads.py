"""The benchmark of hiding: whole heads are held out, and a village is measured."""

from dataclasses import replace

import numpy as np

from benchmarks import held_out_heads
from tests.support.helpers import dataset_of
from tests.support.villages import VILLAGE, propagation_of


def test_heads_are_held_out_in_the_relations_that_are_asked():
    """Of twelve heads two lose their facts of r, and keep those of s, which is not asked, and those where they are tails."""
    facts = [(f"h{number}", "r", f"t{number % 3}") for number in range(12)]
    dataset = dataset_of([*facts, *((f"h{number}", "s", "x") for number in range(12)), ("y", "s", "h0")])
    dataset = replace(dataset, train=dataset.facts[dataset.facts.relations == dataset.relations.id("r")])
    found = held_out_heads.with_held_out_heads(dataset)
    assert len(found.valid) == 2 and len(found.train) == 10 and len(found.facts) == 10 + 12 + 1
    of_r = found.facts[found.facts.relations == dataset.relations.id("r")]
    assert not np.isin(of_r.heads, found.valid.heads).any() and not np.isin(found.train.heads, found.valid.heads).any()


def test_a_head_without_other_facts_is_no_query():
    dataset = dataset_of([(f"h{number}", "r", f"t{number}") for number in range(12)])
    assert len(held_out_heads.with_held_out_heads(replace(dataset, train=dataset.facts[:])).valid) == 0


def test_a_village_is_measured():
    found = held_out_heads.measure(VILLAGE, propagation_of(queries=160, hiding="head").propagation)
    assert found["num_queries"] > 0
    assert all(0 < found[key] <= 1 for key in ("tails", "heads", "dev", "dev_without_facts_of_heads"))
