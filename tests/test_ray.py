"""Work on a real Ray cluster of two nodes: the same results as here, whatever is lost. One cluster serves all tests."""

import os
import re
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import hopwalk
from hopwalk.errors import ClusterError, DataError, MissingPackageError, SettingsError, WorkError
from hopwalk.learning import training
from hopwalk.learning.callbacks import Callback, TrainingPlan
from hopwalk.learning.run import Run
from hopwalk.paper import running
from hopwalk.paper.ledger import Ledger
from hopwalk.reasoning import sharding
from hopwalk.reasoning.walker_model import WalkerModel
from hopwalk.utils.places import Here, Place, open_place
from tests.support.clusters import Killer, add_node, make_nothing, make_squares, note, two_nodes
from tests.support.commands import command
from tests.support.processes_alike import assert_alike
from tests.support.reproducing import reproduce_tiny
from tests.support.schools import SCHOOL, TRAINED
from tests.support.tuning import SPACE
from tests.support.villages import VILLAGE, propagation_of

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


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As many threads here as there: sums of more are rounded otherwise."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """Shells make what they run in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
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
        ("ray:auto", "is not the address of a cluster"),
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


FILES = {"here.tsv", "here.tsv.progress.json", "there.tsv", "there.tsv.progress.json"}


def test_completing_gives_the_same_file_though_a_node_is_lost(
    place: Place, kill_node: Killer, village_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sharding, "BATCHES_OF_SHARD", 1)
    monkeypatch.setattr(WalkerModel, "queries_at_once", 20)  # seven shards
    reasoner = hopwalk.load(village_run)
    reasoner.complete(tmp_path / "here.tsv", above=0.02)
    progress: list[int] = []

    def kill_after_one(done: int, total: int, facts: int, stage: str) -> None:
        if stage == "asking":
            progress.append(done)
        kill_node()

    found = reasoner.complete(tmp_path / "there.tsv", above=0.02, place=place, on_progress=kill_after_one)
    assert kill_node.was_used and len(progress) > 2
    assert (tmp_path / "there.tsv").read_bytes() == (tmp_path / "here.tsv").read_bytes()
    assert found.queries == progress[-1] and {path.name for path in tmp_path.iterdir()} == FILES


def test_what_ray_says_of_lost_nodes_is_a_line_on_stderr(place: Place, capsys: pytest.CaptureFixture[str]):
    """stdout is for results: a node that was lost in the middle of `evaluate --json` stood before the first brace."""
    worker = __import__("ray._private.worker")._private.worker
    assert "print_to_stdstream" in worker.listen_error_messages.__code__.co_names  # still the function that we replace
    worker.print_to_stdstream(
        {"lines": ["node 7 is dead\n\tlast lines of its log\n"], "pid": "raylet", "is_err": False}, ignore_prefix=False
    )
    assert capsys.readouterr() == ("", "Ray: node 7 is dead\n")


def test_an_evaluation_there_is_that_of_here(
    place: Place, on: str, village_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sharding, "QUERIES_OF_SHARD", 4)
    options = "evaluate", str(village_run), "--both", "--untrained-control", "--as-asked", "--json"
    there = command(capsys, *options, "--on", on)
    assert re.search(r"^Ray: \d nodes, \d CPUs$", there.err, re.MULTILINE)
    assert there.out == command(capsys, *options).out


def test_a_reproduction_loses_nothing_with_a_node(place: Place, kill_node: Killer, tmp_path: Path):
    """A scorer, two walkers and the scorer that rewards both; a node is killed while the scorers are trained."""

    class Killing(running.NullProgress):
        def make_callbacks(self, plan: TrainingPlan) -> Sequence[Callback]:
            kill_node()
            return ()

    walkers = ["umls-modern-complex-quick-0", "umls-paper-complex-quick-0"]
    options: Any = {"only": ["umls-distmult-modern-quick-0", *walkers]}
    there = reproduce_tiny(["table2"], tmp_path / "there", progress=Killing(), place=place, **options)
    assert kill_node.was_used and (there.num_made, there.num_missing, there.was_interrupted) == (3, 0, False)
    here = reproduce_tiny(["table2"], tmp_path / "here", **options)
    assert here.num_made == 3
    ledgers = [Ledger(tmp_path / folder / "ledger") for folder in ("there", "here")]
    numbers = [sorted((result.name, str(result.numbers("test"))) for result in ledger.results) for ledger in ledgers]
    assert numbers[0] == numbers[1] and len(numbers[0]) == 4
    for name in walkers:
        weights = [tmp_path / folder / "runs" / f"walker-{name}" / "weights.safetensors" for folder in ("there", "here")]
        assert weights[0].read_bytes() == weights[1].read_bytes()


def test_trials_are_trained_there(place: Place, tmp_path: Path):
    (tmp_path / "space.toml").write_text(SPACE)
    options: Any = {"study": tmp_path / "study.db", "what": "complex", "space": tmp_path / "space.toml"}
    found = hopwalk.tune(SCHOOL, TRAINED, trials=3, place=place, **options)
    assert len(found.trials) == 3 and not found.was_interrupted and found.preset is not None
    kept = list((tmp_path / "study" / "trials").iterdir())
    assert len(kept) == 1 and Run.is_finished_in(kept[0])
    assert Run.open(kept[0]).about["valid_mrr"] == found.trials[0].mrr
    again = hopwalk.tune(SCHOOL, TRAINED, trials=4, **options)  # the fourth is trained here
    assert len(again.trials) == 4


def test_training_goes_on_when_a_process_is_lost(
    place: Place, kill_node: Killer, propagation_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Two processes give the model of one; when the node of the second is lost, training resumes on what is left."""

    class Killing:
        def on_batch(self, *_: Any) -> None: ...

        def on_evaluation(self, record: Any) -> None:
            if record["epoch"] == 2:
                kill_node()

    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    options: Any = {"place": place, "processes": 2, "callbacks": [Killing()]}
    run = hopwalk.train_scorer(VILLAGE, propagation_of(), out=tmp_path / "run", **options)
    assert kill_node.was_used
    assert_alike(run, Run.open(propagation_run))
    with pytest.raises(ClusterError, match="9 processes need 8 CPUs"):
        hopwalk.train_scorer(VILLAGE, propagation_of(), out=tmp_path / "more", place=place, processes=9)
