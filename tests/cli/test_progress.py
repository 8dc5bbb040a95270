"""Progress of training and ranking: bars in a terminal, lines elsewhere."""

import io
import re
import time
from pathlib import Path

import pytest
from rich.console import Console

from hopwalk.cli import progress
from hopwalk.cli.progress import CountBar, TrainingProgress
from hopwalk.learning.callbacks import Callback, Forecast, TrainingPlan
from hopwalk.learning.run import Run
from tests.support.commands import command
from tests.support.villages import SET

VALUES = {"loss": 0.5, "reward": 1.234e-05, "entropy": 0.001234, "hits": 0.1234}


def terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> io.StringIO:
    """A terminal of that width that shows progress, and its output."""
    output = io.StringIO()
    made = Console(file=output, width=width, force_terminal=True, force_interactive=True, color_system=None)
    monkeypatch.setattr(progress, "console", lambda *, to_stderr=False: made)
    return output


def train_a_while(callback: Callback, *, epochs: int) -> None:
    """Call a callback as training does, long enough for an estimate of the time left."""
    for batch in range(1, 8):
        callback.on_batch(epochs // 2, batch, 10, VALUES)
        time.sleep(0.11)
    callback.on_evaluation({"epoch": epochs // 2, "valid_mrr": 0.9512} | VALUES)
    callback.on_evaluation({"epoch": epochs // 2, "valid_mrr": 0.9487} | VALUES)
    callback.on_batch(epochs // 2, 10, 10, VALUES)


@pytest.mark.parametrize("epochs", [2, 40, 1000])
@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_bar_keeps_dev_mrr_and_time_left(monkeypatch: pytest.MonkeyPatch, width: int, epochs: int):
    output = terminal(monkeypatch, width)
    with TrainingProgress() as bars:
        (callback,) = bars.callbacks(TrainingPlan("walker", epochs))
        train_a_while(callback, epochs=epochs)
    last = [line for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", output.getvalue()).splitlines() if line.strip()][-1]
    assert len(last) <= width and "…" not in last
    assert last.startswith(f"walker {epochs // 2}/{epochs} ")
    assert "dev 94.9 best 95.1" in last
    assert re.search(r"95\.1 +\d+:\d\d", last)
    assert ("hits 0.123" in last) == (width > 80)  # the least important value is dropped first


def test_a_line_per_evaluated_epoch_without_a_terminal(village_folder: Path, capsys: pytest.CaptureFixture[str]):
    printed = command(capsys, "train", "village", *SET, "--set", "walker.evaluate_every=2", "--set", "scorer.epochs=2")
    lines = [line for line in printed.err.splitlines() if " epoch " in line]
    shown = [re.match(r"(scorer|walker) epoch (\d+)/(\d+): (.*)$", line) for line in lines]
    assert [match.groups()[:3] for match in shown if match] == [
        ("scorer", "1", "2"),
        ("scorer", "2", "2"),
        ("walker", "2", "4"),
        ("walker", "4", "4"),
    ]
    history = {("walker", str(record["epoch"])): record for record in Run.open("runs/village-walker").history}
    for match in filter(None, shown):
        assert "dev MRR " in match[4] and ("left" in match[4]) == (match[2] != match[3])
        if match[1] == "walker" and "valid_mrr" in history[match[1], match[2]]:
            assert f"dev MRR {100 * history[match[1], match[2]]['valid_mrr']:.2f}" in match[4]
    assert not re.search(r"epoch \d+/", printed.out)  # standard output has only the result


def test_the_forecast_is_printed_before_training(capsys: pytest.CaptureFixture[str]):
    plan = TrainingPlan("walker", 4, Forecast(memory_bytes=300 * 2**20, queries_at_once=8, seconds_of_epoch=12.0))
    with TrainingProgress() as shown:
        shown.callbacks(plan)
    assert (
        capsys.readouterr().err
        == "The walker needs about 300 MB, and 12 s for each of at most 4 epochs, evaluation on dev aside.\n"
    )


def test_the_forecast_of_propagation_counts_parts(capsys: pytest.CaptureFixture[str]):
    forecast = Forecast(memory_bytes=300 * 2**20, queries_at_once=16, seconds_of_epoch=12.0)
    with TrainingProgress() as shown:
        shown.callbacks(TrainingPlan("propagation", 5, forecast, unit="part"))
    expected = "Propagation needs about 300 MB, and 12 s for each of at most 5 parts, evaluation on dev aside.\n"
    assert capsys.readouterr().err == expected


def test_ranking_shows_its_progress_in_a_terminal(monkeypatch: pytest.MonkeyPatch):
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    output = terminal(monkeypatch, 100)
    with CountBar() as bar:
        bar.show(10, 100, "10 of 100 queries ranked")
        bar.show(50, 100, "50 of 100 queries ranked")
    assert "50 of 100 queries ranked" in output.getvalue()


def test_ranking_prints_a_line_now_and_then_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with CountBar() as bar:
        for done in range(10, 60, 10):
            bar.show(done, 100, f"{done} of 100 queries ranked")
    lines = capsys.readouterr().err.splitlines()
    assert lines and all(re.fullmatch(r"\d+ of 100 queries ranked, \d+ (s|min) left", line) for line in lines)


def test_a_second_ranking_is_timed_from_the_end_of_the_first(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Its first tenth took 40 s: 6 min left, not none."""
    clock = iter([0.0, 20.0, 60.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with CountBar() as bar:
        bar.show(100, 100, "100 of 100 queries ranked")
        bar.show(10, 100, "10 of 100 queries ranked")
    assert capsys.readouterr().err == "10 of 100 queries ranked, 6 min left\n"


def test_short_rankings_show_nothing(trained_walker: Run, capsys: pytest.CaptureFixture[str]):
    assert command(capsys, "evaluate", str(trained_walker.path)).err == ""
