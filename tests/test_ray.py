"""Work on a real Ray cluster of two nodes: the same results as here, whatever is lost on the way. One cluster serves all tests."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hopwalk.errors import ClusterError, DataError, MissingPackageError, SettingsError, WorkError
from hopwalk.utils.places import Here, Place, open_place
from tests.support.clusters import Killer, add_node, make_nothing, make_squares, note, two_nodes

pytest.importorskip("ray", reason="needs Ray: pip install 'hopwalk[ray]'")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with two_nodes() as made:
        yield made


@pytest.fixture(scope="module")
def on(cluster: Any) -> str:
    return f"ray:{cluster.address}"


@pytest.fixture(scope="module")
def place(on: str) -> Iterator[Place]:
    with open_place(on) as made:
        yield made


@pytest.fixture
def kill_node(cluster: Any, place: Place) -> Iterator[Killer]:
    """Kills the second node; there is a new one after the test."""
    killer = Killer(cluster)
    yield killer
    if killer.was_used:
        add_node(cluster)


def test_results_are_those_of_this_process(place: Place):
    expected = {number: number**2 for number in range(6)}
    assert dict(Here().run(make_squares, range(6))) == expected
    assert dict(place.run(make_squares, range(6))) == expected
    assert place.describe() == "Ray: 2 nodes, 2 CPUs"
    assert not list(place.run(make_squares, []))


def test_pieces_are_taken_when_a_process_is_free(place: Place):
    """A generator of pieces, as Optuna's, sees the results of the first before it gives the last."""
    told: list[int] = []
    seen: list[int] = []

    def pieces() -> Iterator[int]:
        for number in range(5):
            seen.append(len(told))
            yield number

    for number, _ in place.run(make_squares, pieces()):
        told.append(number)
    assert sorted(told) == list(range(5)) and all(count >= number - 1 for number, count in enumerate(seen))


def test_reports_arrive_and_can_end_a_piece(place: Place):
    reports: list[tuple[int, int]] = []

    def on_report(piece: int, value: int) -> bool:
        reports.append((piece, value))
        return piece == 99

    assert dict(place.run(make_squares, [99, 2], on_report)) == {99: -99, 2: 4}
    assert (2, 2) in reports and (99, 99) in reports
    assert dict(Here().run(make_squares, [99], on_report)) == {99: -99}


def test_failures_are_our_errors_with_their_traceback(place: Place):
    with pytest.raises(DataError, match=r"numbers.txt:13: no thirteens. Take another."):
        list(place.run(make_squares, [1, 13]))
    with pytest.raises(WorkError, match="ZeroDivisionError: fourteen") as caught:
        list(place.run(make_squares, [14]))
    assert 'raise ZeroDivisionError("fourteen")' in caught.value.traceback
    with pytest.raises(DataError, match="nothing to load"):
        list(place.run(make_nothing, [1]))


def test_a_lost_node_costs_only_its_piece(place: Place, kill_node: Killer, tmp_path: Path):
    found = []
    for piece, result in place.run(note(tmp_path), range(7)):
        found.append((piece, result))
        if len(found) == 2:
            kill_node()
    assert sorted(found) == [(number, number) for number in range(7)]
    begun = [path.name.partition("-")[0] for path in tmp_path.iterdir()]
    assert set(begun) == {*"0123456"} and len(begun) <= 8


def test_ctrl_c_ends_all_pieces(place: Place):
    timer = threading.Timer(1.0, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        assert not list(place.run(make_squares, [99, 99]))
    assert dict(place.run(make_squares, [3])) == {3: 9}  # the CPUs are free again


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ray:127.0.0.1:1", r"no Ray cluster answers at 127\.0\.0\.1:1 .*Start one with"),
        ("ray:nowhere", "is not the address of a cluster"),
        ("ray:host:99999", "is not the address of a cluster"),
        ("ray:ray://127.0.0.1:10001", "client protocol is not supported"),
    ],
)
def test_wrong_addresses_are_refused_at_once(address: str, message: str):
    with pytest.raises(ClusterError, match=message), open_place(address):
        pass


@pytest.mark.parametrize("on", ["", "ray:", "spark", "rays", "local:2"])
def test_unknown_places_are_refused(on: str):
    with pytest.raises(SettingsError, match="there is no place"), open_place(on):
        pass


def test_without_ray_the_package_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingPackageError, match=r"needs the package ray.*pip install ray"), open_place("ray"):
        pass
