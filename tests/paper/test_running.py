"""Reproduction from end to end: everything is trained, resumed, recorded and reported, and nothing twice."""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from hopwalk.errors import RunError, SettingsError, UnknownNameError
from hopwalk.learning.callbacks import Callback, TrainingPlan
from hopwalk.paper import running
from hopwalk.paper.ledger import Ledger
from hopwalk.paper.plan import Scope, planned, targets_of
from tests.support.reproducing import SCORER, TINY, WALKER, reproduce_tiny
from tests.support.stopping import StopAt


def test_everything_is_made(reproduced: Path):
    text = (reproduced / "report.md").read_text(encoding="utf-8")
    assert "This is a quick run" in text and "Nothing is missing" in text
    unplanned = ("paper, ComplEx",)  # rows of runs that the plan does not have
    rows = [line for line in text.splitlines() if line.startswith("|") and not any(name in line for name in unplanned)]
    assert not [row for row in rows if "not run" in row and "−AD" not in row and "UMLS" not in row]
    assert (reproduced / "report.html").exists() and (reproduced / "figures" / "false-negatives-umls.svg").exists()
    for link in re.findall(r"\]\((figures/[^)]+)\)", text):
        assert (reproduced / link).exists()


def test_results_have_all_that_a_ledger_keeps(reproduced: Path):
    for result in Ledger(reproduced / "ledger").results:
        content = result.content
        assert content["command"].startswith("hopwalk train umls")
        assert content["data"]["fingerprint"] and content["source"]["source_sha256"] and content["source"]["cpu"]
        assert content["threads"] and content["peak_memory_bytes"] > 0 and "training_seconds" in content
        assert content["history"] and content["status"] == "finished"
        for split in ("valid", "valid_complete_filter", "test"):
            tails = result.numbers(split)["tails"]  # type: ignore[index]
            assert tails["mrr_pessimistic"] <= tails["mrr"] <= tails["mrr_optimistic"] and "unreached" in tails


def test_finished_runs_are_not_trained_again(reproduced: Path):
    def files() -> dict[Path, int]:
        kept = [path for name in ("runs", "ledger") for path in (reproduced / name).rglob("*") if path.is_file()]
        return {path: path.stat().st_mtime_ns for path in kept}

    report, before = (reproduced / "report.md").read_text(encoding="utf-8"), files()
    found = reproduce_tiny(["all"], reproduced)
    assert (found.num_made, found.num_missing) == (0, 0)
    assert (reproduced / "report.md").read_text(encoding="utf-8") == report
    assert files() == before


@pytest.mark.usefixtures("checkpoints")
def test_an_interrupted_run_is_resumed(reproduced: Path, tmp_path: Path):
    """Ctrl-C in the second epoch of a walker: recorded as unfinished, then finished, with the scorer that it began with."""
    shutil.copytree(reproduced / "runs" / SCORER, tmp_path / "runs" / SCORER)
    changes = (*(change for change in TINY if not change.startswith("walker.epochs")), "walker.epochs=2")

    class Stopping(running.NullProgress):
        def make_callbacks(self, plan: TrainingPlan) -> Sequence[Callback]:
            return [StopAt(2, 1, KeyboardInterrupt)] if plan.kind == "walker" else []

    stopped = reproduce_tiny(["table2"], tmp_path, changes, only=[WALKER], progress=Stopping())
    assert stopped.was_interrupted and stopped.num_missing == 1
    (noted,) = [result for result in Ledger(tmp_path / "ledger").results if result.kind == "walker"]
    assert not noted.is_finished and noted.epochs == 1
    finished = reproduce_tiny(["table2"], tmp_path, changes, only=[WALKER])
    assert finished.num_made == 1 and not finished.num_missing
    (result,) = [result for result in Ledger(tmp_path / "ledger").results if result.kind == "walker"]
    assert result.is_finished and result.epochs == 2


def test_a_run_of_other_settings_is_left_alone(reproduced: Path, tmp_path: Path):
    """A run of the same name, made with other settings, stays; the new one gets another name."""
    shutil.copytree(reproduced / "runs" / SCORER, tmp_path / "runs" / SCORER)
    before = (tmp_path / "runs" / SCORER / "run.json").read_text()
    found = reproduce_tiny(["table2"], tmp_path, (*TINY, "scorer.n3=0.5"), only=[SCORER])
    assert (found.num_made, found.num_missing, found.was_interrupted) == (1, 0, False)
    assert (tmp_path / "ledger" / "scorers" / "umls-complex-modern-quick-v2-0.json").exists()
    assert (tmp_path / "runs" / SCORER / "run.json").read_text() == before


def test_older_results_get_the_evaluation_that_they_lack(reproduced: Path, tmp_path: Path):
    shutil.copytree(reproduced / "ledger", tmp_path / "ledger")
    path = tmp_path / "ledger" / "walkers" / "umls-paper-conve-no-rs-quick-0.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    complete = content.pop("valid_complete_filter")
    path.write_text(json.dumps(content), encoding="utf-8")
    reproduce_tiny(["appendix-dev-complete"], tmp_path, runs=reproduced / "runs")
    assert json.loads(path.read_text(encoding="utf-8"))["valid_complete_filter"] == complete


def test_runs_can_be_chosen_by_name():
    runs = planned(targets_of(["table3"]), Scope())
    assert [run.name for run in running.only_named(runs, ["umls-paper-conve-no-rs-0", "kinship-*-no-ad-0"])] == [
        "umls-paper-conve-no-rs-0",
        "kinship-paper-conve-no-ad-0",
    ]
    with pytest.raises(UnknownNameError, match=r"no run 'umls-paper-conv-0' is planned\. Did you mean"):
        running.only_named(runs, ["umls-paper-conv-0"])
    with pytest.raises(UnknownNameError, match=r"no run 'zzz' is planned\. See the plan for their names\."):
        running.only_named(runs, ["zzz"])


def test_data_sets_of_a_reproduction():
    assert running.scope_of(["FB15k237", "umls"], None).data_sets == ("umls", "fb15k-237")
    with pytest.raises(SettingsError, match="no data set 'umsl'"):
        running.scope_of(["umsl"], None)
    with pytest.raises(SettingsError, match="a quick reproduction has only umls"):
        running.scope_of(["kinship"], None, quick=True)


def test_a_file_is_not_a_folder(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="a file, not a folder"):
        running.reproduce(["table1"], out=tmp_path / "file")
    with pytest.raises(RunError, match="a file, not a folder"):
        running.reproduce(["table1"], out=tmp_path, runs=tmp_path / "file")
    with pytest.raises(RunError, match="a file, not a folder"):
        running.reproduce(["table1"], out=tmp_path, ledger=tmp_path / "file")
