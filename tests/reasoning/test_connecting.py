"""Paths between two entities: counted by hand, and against networkx."""

from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import hopwalk
from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.errors import SettingsError, UnknownNameError
from hopwalk.reasoning import connecting
from hopwalk.reasoning.connecting import PathsBetween, paths_between
from tests.support.helpers import Fact, dataset_of
from tests.support.villages import VILLAGE

FACTS: list[Fact] = [
    ("aspirin", "treats", "pain"),
    ("ibuprofen", "treats", "pain"),
    ("aspirin", "inhibits", "COX-1"),
    ("ibuprofen", "inhibits", "COX-1"),
    ("naproxen", "treats", "pain"),
    ("ibuprofen", "like", "aspirin"),
    ("island", "near", "islet"),
]


def between(dataset: Dataset, head: str, tail: str, *, hops: int = 3, k: int = 100) -> PathsBetween:
    known = KnownAnswers([dataset.facts], len(dataset.entities), len(dataset.relations))
    return paths_between(dataset, known, dataset.entities.id(head), dataset.entities.id(tail), hops=hops, k=k)


def test_shortest_first_then_through_the_least_busy():
    found = between(dataset_of(FACTS), "aspirin", "ibuprofen")
    assert [str(path) for path in found.paths] == [
        "aspirin ←like— ibuprofen",
        "aspirin —inhibits→ COX-1 ←inhibits— ibuprofen",  # COX-1 has two facts, pain three
        "aspirin —treats→ pain ←treats— ibuprofen",
    ]
    assert (found.total, found.is_complete) == (3, True)
    assert str(found).startswith("3 paths of ≤ 3 hops from aspirin to ibuprofen\n  aspirin ←like— ibuprofen\n")
    one = between(dataset_of(FACTS), "aspirin", "ibuprofen", hops=1)
    assert one.total == 1 and one.title == "1 path of ≤ 1 hop from aspirin to ibuprofen"
    few = between(dataset_of(FACTS), "aspirin", "ibuprofen", k=2)
    assert few.paths == found.paths[:2] and few.total == 3
    assert few.to_dict()["paths"][0] == {
        "text": "aspirin ←like— ibuprofen",
        "edges": [{"relation": "like", "entity": "ibuprofen", "is_inverse": True, "key": "ibuprofen"}],
    }


def test_no_path():
    found = between(dataset_of(FACTS), "aspirin", "island")
    assert (found.paths, found.total, found.is_complete) == ((), 0, True)
    assert found.title == "No path of ≤ 3 hops from aspirin to island"


def test_the_same_as_networkx():
    graph = nx.MultiGraph([(head, tail) for head, _, tail in VILLAGE.labels_of(VILLAGE.facts) if head != tail])
    names = np.random.default_rng(1).choice(list(VILLAGE.entities), 12, replace=False).tolist()
    for head, tail in pairwise(names):
        found = between(VILLAGE, head, tail, k=10**6)
        walked = sorted(tuple(edge.key for edge in path.edges) for path in found.paths)
        expected = sorted(tuple(path[1:]) for path in nx.all_simple_paths(graph, head, tail, cutoff=3))
        assert walked == expected and found.total == len(expected) and found.is_complete
        lengths = [len(path.edges) for path in found.paths]
        assert lengths == sorted(lengths)
        assert len({str(path) for path in found.paths}) == len(found.paths)


def test_work_is_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch):
    whole = between(VILLAGE, "child 0", "man 1")
    monkeypatch.setattr(connecting, "MOST_PARTIAL", 3)
    cut = between(VILLAGE, "child 0", "man 1")
    assert whole.is_complete and not cut.is_complete and 0 < cut.total < whole.total
    assert {str(path) for path in cut.paths} < {str(path) for path in whole.paths}
    assert cut.title.startswith(f"At least {cut.total} paths of")
    monkeypatch.setattr(connecting, "MOST_EDGES", 0)
    none = between(VILLAGE, "child 0", "man 1")
    assert not none.is_complete and none.title.startswith("Found no path of")


def test_a_hub_with_many_leaves():
    """Only paths that can arrive in time are followed: the leaves are not."""
    facts = [("hub", "has", f"leaf {number}") for number in range(30_000)]
    found = between(dataset_of([*facts, ("leaf 7", "is", "end")]), "hub", "end", hops=6)
    assert [str(path) for path in found.paths] == ["hub —has→ leaf 7 —is→ end"] and found.is_complete


def test_wrong_questions(uncles_run: Path):
    reasoner = hopwalk.load(uncles_run)
    assert reasoner.paths_between("CHILD_0", "mother 0").total
    with pytest.raises(SettingsError, match="the same entity"):
        reasoner.paths_between("child 0", "Child_0")
    for hops in (0, -1, 7, 2.5):
        with pytest.raises(SettingsError, match="hops must be a whole number"):
            reasoner.paths_between("child 0", "man 1", hops=hops)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="there is no entity 'nobody'"):
        reasoner.paths_between("child 0", "nobody")
