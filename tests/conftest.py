"""What tests share: a private cache, small runs, and the mirror of the downloaded benchmark sets where there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from hopwalk.learning.run import Run
    from hopwalk.web.runs import RunView
    from tests.support.databases import Server
    from tests.support.serving import Client

MIRROR = os.environ.get("HOPWALK_MIRROR")

hypothesis.settings.register_profile("without deadlines", deadline=None)  # no test asserts seconds
hypothesis.settings.load_profile("without deadlines")

# What they assert tells as much as in a test.
pytest.register_assert_rewrite(
    "tests.support.commands", "tests.support.serving", "tests.support.stopping", "tests.support.processes_alike"
)


def pytest_report_header() -> str:
    if MIRROR:
        return "mirror of the downloaded data sets: present"
    return "mirror of the downloaded data sets: none, so tests on fb15k-237, wn18rr and nell-995 are skipped (HOPWALK_MIRROR)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if MIRROR:
        return
    for item in items:
        if item.get_closest_marker("mirror"):
            item.add_marker(pytest.mark.skip(reason="needs the downloaded data sets: set HOPWALK_MIRROR"))


@pytest.fixture(autouse=True, scope="session")
def private_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep downloads, and what PyKEEN writes, out of the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPWALK_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("PYSTOW_HOME", str(tmp_path_factory.mktemp("pystow")))
        yield


@pytest.fixture(autouse=True, scope="session")
def quick_disk() -> Iterator[None]:
    """Do not wait for the disk: a power failure is not among the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def served_runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, RunView]:
    """Two small walkers to serve."""
    from tests.support.serving import train_runs

    return train_runs(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def client(served_runs: Mapping[str, RunView]) -> Iterator[Client]:
    """Asks a server of these walkers."""
    from tests.support.serving import serving

    with serving(served_runs) as made:
        yield made


@pytest.fixture(scope="session")
def uncles_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A walker that has learnt who uncles are in the village, without a scorer."""
    from tests.support.villages import train_on_uncles

    return train_on_uncles(tmp_path_factory.mktemp("uncles"))


@pytest.fixture(scope="session")
def village_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A walker of the village with a scorer, which has learnt little."""
    from tests.support.villages import VILLAGE, settings_of, train_walker

    return train_walker(VILLAGE, settings_of(), out=tmp_path_factory.mktemp("village") / "run").path


@pytest.fixture(scope="session")
def propagation_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A propagation model that has learnt who uncles are in the village, not to be changed."""
    from hopwalk import api
    from tests.support.villages import VILLAGE, propagation_of

    return api.train(VILLAGE, propagation_of(), out=tmp_path_factory.mktemp("propagation") / "run").path


@pytest.fixture(scope="session")
def trained_walker(village_run: Path) -> Run:
    """That run of the village, not to be changed."""
    from hopwalk.learning.run import Run

    return Run.open(village_run)


@pytest.fixture
def copied(tmp_path: Path, village_run: Path) -> Path:
    """A copy of that run, to be changed."""
    return Path(shutil.copytree(village_run, tmp_path / "copied"))


@pytest.fixture(scope="session")
def trained_scorer(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of a scorer of the school, not to be changed."""
    import hopwalk
    from tests.support.schools import SCHOOL, TRAINED

    return hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path_factory.mktemp("school") / "run")


@pytest.fixture(scope="session")
def running_postgresql() -> Iterator[Server]:
    """A real PostgreSQL; skips where it is not installed, unless HOPWALK_POSTGRESQL says that it is required."""
    from tests.support.databases import MISSING, postgresql, programs

    if programs() is None:
        if os.environ.get("HOPWALK_POSTGRESQL") == "required":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    with postgresql() as server:
        yield server


@pytest.fixture(scope="module")
def empty_postgresql(running_postgresql: Server) -> Server:
    """That server without tables."""
    running_postgresql.run("drop schema public cascade", "create schema public")
    return running_postgresql


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def village_folder(in_folder: Path) -> Path:
    """The village as a folder of files, in the current folder."""
    import hopwalk
    from tests.support.villages import VILLAGE

    hopwalk.write_folder(VILLAGE, "village")
    return in_folder


@pytest.fixture
def checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every evaluation."""
    from hopwalk.learning import training

    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
