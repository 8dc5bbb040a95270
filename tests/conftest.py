"""What tests share: a private cache, and the mirror of the downloaded benchmark sets where there is one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hopwalk.web.served import ServedRun

MIRROR = os.environ.get("HOPWALK_MIRROR")


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


@pytest.fixture(scope="session")
def served_runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, ServedRun]:
    """Two small walkers to serve."""
    from tests.serving import train_runs

    return train_runs(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def uncles_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learnt who uncles are in the village, without a scorer."""
    from tests.villages import train_on_uncles

    return train_on_uncles(tmp_path_factory.mktemp("uncles"))


@pytest.fixture(scope="session")
def village_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the village with a scorer, which has learnt little."""
    from hopwalk import api
    from tests.villages import VILLAGE, settings_of

    return api.train(VILLAGE, settings_of(), out=tmp_path_factory.mktemp("village") / "run").path


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
