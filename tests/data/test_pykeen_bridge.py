"""To PyKEEN and back."""

import sys

import pytest

import hopwalk
from hopwalk.errors import MissingPackageError, UnknownNameError
from tests.support.helpers import FAMILY, dataset_of, facts_of

pytestmark = pytest.mark.filterwarnings("ignore")  # PyKEEN and what it imports warn of their own affairs


def test_by_name():
    nations = hopwalk.load_dataset("pykeen:nations")
    assert (len(nations.entities), len(nations.relations), len(nations.train)) == (14, 55, 1592)


def test_data_set_round_trip():
    family = dataset_of(FAMILY, valid=[("ann", "knows", "dan")], test=[("ann", "knows", "bob")])
    theirs = hopwalk.to_pykeen(family)
    assert theirs.training.mapped_triples.tolist() == family.facts.array().tolist()
    assert theirs.training.entity_to_id == {label: id_ for id_, label in enumerate(family.entities)}
    assert hopwalk.from_pykeen(theirs).fingerprint == family.fingerprint


def test_umls_is_the_same_from_both_sides():
    assert hopwalk.load_dataset("pykeen:umls").fingerprint == hopwalk.load_dataset("umls").fingerprint


def test_triples_factories():
    from pykeen.triples import CoreTriplesFactory

    theirs = hopwalk.to_pykeen(dataset_of(FAMILY, test=[("ann", "knows", "bob")])).training
    assert facts_of(hopwalk.from_pykeen(theirs)) == {*FAMILY}
    core = CoreTriplesFactory(theirs.mapped_triples, num_entities=5, num_relations=4)
    assert ("0", "2", "1") in facts_of(hopwalk.from_pykeen(core))


def test_unknown_name():
    with pytest.raises(UnknownNameError, match="Did you mean 'nations'"):
        hopwalk.load_dataset("pykeen:nation")


def test_without_pykeen(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "pykeen"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pykeen", None)
    with pytest.raises(MissingPackageError, match=r"pip install pykeen"):
        hopwalk.load_dataset("pykeen:nations")
