"""The benchmark of new entities: training never sees them, and their facts make them as good as others."""

import numpy as np
import pytest

from benchmarks import new_entities
from hopwalk import api
from tests.support.villages import VILLAGE, propagation_of, village_of


def test_training_has_no_fact_of_a_new_entity():
    is_new = new_entities.choose_new(VILLAGE, seed=0)
    assert is_new.sum() == round(0.1 * len(VILLAGE.entities))
    assert not np.array_equal(is_new, new_entities.choose_new(VILLAGE, seed=1))
    seen = new_entities.without(VILLAGE, is_new)
    for part in (seen.facts, seen.train, seen.valid):
        assert len(part) and not np.isin(part.array()[:, [0, 2]], np.flatnonzero(is_new)).any()
    assert len(seen.facts) + int(new_entities.mentions(VILLAGE.facts, is_new).sum()) == len(VILLAGE.facts)
    assert len(seen.entities) == len(VILLAGE.entities)


def test_their_facts_make_new_entities_as_good_as_others(monkeypatch: pytest.MonkeyPatch):
    """Without their facts nobody finds the uncles of new children; with them the rule that was learnt from others does."""
    settings, village = propagation_of(queries=2400), village_of(40)
    monkeypatch.setattr(api, "load_dataset", lambda name: village)
    monkeypatch.setattr(api, "settings_for", lambda name, overrides: settings)
    found = new_entities.measure("village", queries=2400, epochs=0, seed=0)
    parts = found["propagation"]
    assert parts["with_their_facts"]["new"]["queries"] + parts["with_their_facts"]["others"]["queries"] == len(village.test)
    assert parts["with_their_facts"]["new"]["mrr"] > 0.6 > 0.2 > parts["before_their_facts"]["new"]["mrr"]
    titles, cells = new_entities.table({"village": found})
    assert len(titles) == len(cells) and cells[-1] == "–"
