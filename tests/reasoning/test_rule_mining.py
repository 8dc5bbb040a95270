"""The rules that a reasoner uses for a relation."""

from pathlib import Path

import pytest

from hopwalk import api
from hopwalk.errors import DataError
from hopwalk.reasoning.reasoner import Reasoner


@pytest.fixture(scope="module")
def reasoner(uncles_run: Path) -> Reasoner:
    return api.load(uncles_run)


def test_the_planted_rule_is_used_most(reasoner: Reasoner):
    used = reasoner.rules("uncle", k=5)
    assert str(used[0].rule) == "uncle(X,Y) ⇐ mother(X,A), brother(A,Y)"
    assert used[0].weight > 0.5 and used[0].queries > 3 and used[0].evidence.confidence > 0.5
    assert [rule.strength for rule in used] == sorted((rule.strength for rule in used), reverse=True)
    assert used[0].strength == used[0].weight * used[0].evidence.confidence and all(rule.evidence.holds for rule in used)
    assert used[0].examples[0].edges[0].relation == "mother"


def test_rules_of_relations_without_dev_queries(reasoner: Reasoner):
    assert reasoner.rules("mother", k=1)  # from training queries
    assert str(reasoner.rules("uncle⁻¹", k=1)[0].rule).startswith("uncle(Y,X) ⇐ ")
    with pytest.raises(DataError, match="no queries about 'mother'"):
        reasoner.rules("mother", split="valid")
