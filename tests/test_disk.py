"""Every write of training, completing and reproducing is made to fail once: an error of ours, and nothing is lost."""

import errno
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hopwalk
from hopwalk import api
from hopwalk.errors import StorageError
from hopwalk.learning.run import Run
from hopwalk.reasoning.reasoner import Reasoner
from tests.support.failing_disk import failing_disk
from tests.support.reproducing import SCORER, reproduce_tiny
from tests.support.schools import SCHOOL, settings_of
from tests.support.stopping import result_of, results_of
from tests.support.villages import VILLAGE, train_walker
from tests.support.villages import settings_of as walker_settings

CODES = {"no space": errno.ENOSPC, "I/O error": errno.EIO, "no permission": errno.EACCES}
Work = Callable[[Path], Any]  # what is done in a folder, again and again until it is done; gives what is to be the same


def _train_scorer(folder: Path) -> Any:
    return result_of(hopwalk.train_scorer(SCHOOL, settings_of(epochs=2), out=folder / "run", resume=True))


def _train_walker(folder: Path) -> Any:
    settings = walker_settings({"walker.epochs": 1, "scorer.epochs": 1})
    return results_of(train_walker(VILLAGE, settings, out=folder / "run", resume=True))


def _evaluate(run: Path) -> Work:
    def work(folder: Path) -> Any:
        if not (folder / "run").exists():
            subprocess.run(["cp", "-r", run, folder / "run"], check=True)  # not by the disk that fails
        api.evaluate(folder / "run")
        return Run(folder / "run").read_json("evaluation-test.json")

    return work


def _complete(reasoner: Reasoner, suffix: str) -> Work:
    def work(folder: Path) -> Any:
        target = folder / f"new{suffix}"
        reasoner.complete(target, relations=["uncle"], above=0.3, resume=True)
        assert {path.name for path in folder.iterdir()} == {target.name, f"{target.name}.progress.json"}
        return target.read_bytes()

    return work


def _reproduce(folder: Path) -> Any:
    reproduce_tiny(["table2"], folder / "out", only=[SCORER], runs=folder / "runs", ledger=folder / "ledger")
    run = result_of(Run.open(next((folder / "runs").rglob("weights.safetensors")).parent))
    return run, sorted(path.relative_to(folder) for path in (folder / "out").rglob("*"))


@pytest.fixture(scope="module")
def works(uncles_run: Path, village_run: Path) -> dict[str, Work]:
    reasoner = api.load(uncles_run)
    completing = {f"complete {suffix}": _complete(reasoner, suffix) for suffix in (".tsv", ".parquet", ".nt")}
    training = {"train a scorer": _train_scorer, "train a walker": _train_walker, "reproduce": _reproduce}
    return {**training, "evaluate": _evaluate(village_run), **completing}


NAMES = ["train a scorer", "train a walker", "evaluate", "reproduce", "complete .tsv", "complete .parquet", "complete .nt"]


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Path]:
    """Folders 0, 1, … to work in."""
    return (tmp_path / str(number) for number in range(10_000))


@pytest.mark.parametrize("name", NAMES)
def test_every_write_fails_once(works: dict[str, Work], folders: Iterator[Path], checkpoints: None, name: str):
    work, folder = works[name], next(folders)
    folder.mkdir()
    with failing_disk(folder) as disk:
        expected = work(folder)
    assert disk.operations and not disk.unseen
    for number, operation in enumerate(disk.operations, start=1):
        if name in ("train a walker", "reproduce") and number % 4:
            continue  # these take seconds each time, and write by the same code
        codes = list(CODES.values())
        for code in codes if name == "complete .tsv" else [codes[number % 3]]:  # all of them take minutes
            folder = next(folders)
            folder.mkdir()
            with failing_disk(folder, number, code) as failing:
                try:
                    result = work(folder)
                except StorageError as error:
                    assert str(folder) in str(error) and error.remedy, operation
                    result = None
            assert len(failing.operations) >= number, operation
            assert result in (None, expected), operation  # an error, or else what failed does not matter
            assert work(folder) == expected, operation
            leftover = [path for path in folder.rglob(".*") if path.is_file()]
            assert not leftover or operation.startswith(("unlink", "replace", "fsync")), (operation, leftover)
            shutil.rmtree(folder)


def test_a_full_disk_says_how_much_is_needed(tmp_path: Path):
    with failing_disk(tmp_path) as disk:
        hopwalk.train_scorer(SCHOOL, settings_of(epochs=1), out=tmp_path / "run")
    at = next(number for number, name in enumerate(disk.operations, 1) if name.startswith("write .weights"))
    with failing_disk(tmp_path, at, errno.ENOSPC), pytest.raises(StorageError, match=r"Free at least 0\.1 MB in .*full, then"):
        hopwalk.train_scorer(SCHOOL, settings_of(epochs=1), out=tmp_path / "full")
