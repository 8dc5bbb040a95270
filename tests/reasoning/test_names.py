"""Names in queries: found apart from case, and errors that name everything that is wrong."""

from pathlib import Path
from typing import Any

import pytest

from hopwalk import api
from hopwalk.errors import HopwalkError, UnknownNameError
from hopwalk.reasoning.names import Names
from hopwalk.reasoning.reasoner import Reasoner
from tests.support.villages import VILLAGE

NAMES = Names(VILLAGE)


@pytest.fixture(scope="module")
def reasoner(uncles_run: Path) -> Reasoner:
    return api.load(uncles_run)


def test_relations_and_their_inverses_are_found():
    assert NAMES.relation_id("Uncle") == 3 and NAMES.relation_id("UNCLE⁻¹") == 7
    assert NAMES.query_ids("Child_0", "uncle") == (VILLAGE.entities.id("child 0"), 3)
    assert NAMES.relation_name(7) == NAMES.relation_key(7) == "uncle⁻¹"


def test_a_wrong_query_among_many(reasoner: Reasoner):
    with pytest.raises(UnknownNameError, match="there is no entity 'nobody at all'"):
        reasoner.ask_many([("child 0", "uncle"), ("nobody at all", "uncle")])


def test_both_wrong_names_of_a_query_are_reported(reasoner: Reasoner):
    for ask in (reasoner.ask, lambda head, relation: reasoner.explain(head, relation, "man 1")):
        with pytest.raises(UnknownNameError) as raised:
            ask("chidl 0", "uncel")
        assert "there is no entity 'chidl 0'" in raised.value.problem
        assert "there is no relation 'uncel'" in raised.value.problem
        assert "child 0" in raised.value.remedy and "uncle" in raised.value.remedy


@pytest.mark.parametrize("name", [3, None, 2.5, ["child 0"], b"child 0"])
def test_names_must_be_text(reasoner: Reasoner, name: Any):
    for query in ((name, "uncle"), ("child 0", name)):
        with pytest.raises(HopwalkError):
            reasoner.ask(*query)
    for fact in ((name, "uncle", "man 1"), ("child 0", name, "man 1"), ("child 0", "uncle", name)):
        with pytest.raises(HopwalkError):
            reasoner.explain(*fact)
    with pytest.raises(HopwalkError):
        reasoner.rules(name)
