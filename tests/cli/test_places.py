"""`--on`: mistakes are told with their remedy, before anything is loaded or written."""

from pathlib import Path

import pytest

from tests.support.commands import mistake
from tests.support.villages import SET


@pytest.mark.parametrize("verb", ["complete", "evaluate"])
def test_unknown_places_are_told(village_run: Path, in_folder: Path, capsys: pytest.CaptureFixture[str], verb: str):
    told = mistake(capsys, verb, str(village_run), "--on", "spark")
    assert told == "error: there is no place 'spark' to work at Places are local, ray, and ray:HOST:PORT."
    assert not list(in_folder.iterdir())


def test_no_cluster_is_told_at_once(village_run: Path, in_folder: Path, capsys: pytest.CaptureFixture[str]):
    told = mistake(capsys, "complete", str(village_run), "--on", "ray:127.0.0.1:1")
    assert "no Ray cluster answers at 127.0.0.1:1" in told and "Start one with `ray start --head" in told
    assert not list(in_folder.iterdir())


def test_only_answers_are_ranked_elsewhere(village_run: Path, capsys: pytest.CaptureFixture[str]):
    for option in (["--faithfulness"], ["--task", "facts"]):
        told = mistake(capsys, "evaluate", str(village_run), *option, "--on", "ray")
        assert "--on is for the ranking of answers" in told


def test_a_walker_is_trained_by_one_process(village_folder: Path, capsys: pytest.CaptureFixture[str]):
    for option in (["--on", "ray"], ["--processes", "2"]):
        told = mistake(capsys, "train", "village", "--reasoner", "walker", *SET, *option)
        assert "--on and --processes are for propagation" in told
    assert not (village_folder / "runs").exists()
