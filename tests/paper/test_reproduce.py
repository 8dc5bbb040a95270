"""`hopwalk reproduce` from end to end: everything is made, resumed, recorded and told; and nothing is made twice."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hopwalk import api
from hopwalk.errors import RunError
from hopwalk.learning import training
from hopwalk.paper import running
from hopwalk.paper.ledger import Ledger
from hopwalk.paper.plan import QUICK, TARGETS, Scope
from hopwalk.paper.recording import record
from hopwalk.paper.run_spec import RunSpec
from hopwalk.paper.running import reproduce
from tests.support.commands import command

RESULTS = Path(__file__).parents[2] / "results"
TINY = (
    "scorer.epochs=1",
    "scorer.dimension=30",
    "scorer.batch_size=2048",
    "walker.epochs=1",
    "walker.evaluate_every=1",
    "walker.batch_size=2048",
    "walker.rollouts=1",
    "walker.dimension=4",
    "walker.history_dimension=4",
    "walker.history_layers=1",
    "walk.beam=8",
)


UMLS = api.load_dataset("umls")
SOME = replace(UMLS, facts=UMLS.facts[::10], train=UMLS.train[::10], valid=UMLS.valid[::10], test=UMLS.test[::10])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything for UMLS, in the smallest form there is."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "load_dataset", lambda *_, **__: SOME)
        found = reproduce(["all"], out=folder, quick=True, changes=TINY)
    assert found.num_made > 10 and not found.num_missing and not found.was_interrupted
    return folder


def test_everything_is_made(made: Path):
    text = (made / "report.md").read_text(encoding="utf-8")
    assert "This is a quick run" in text and "Nothing is missing" in text
    ours = [line for line in text.splitlines() if line.startswith("|") and "paper, ComplEx" not in line]
    assert not [line for line in ours if "not run" in line and "−AD" not in line and "UMLS" not in line]
    assert (made / "report.html").exists() and (made / "figures" / "false-negatives-umls.svg").exists()
    for link in re.findall(r"\]\((figures/[^)]+)\)", text):
        assert (made / link).exists()


def test_results_say_all_that_a_ledger_keeps(made: Path):
    for result in Ledger(made / "ledger").results:
        content = result.content
        assert content["command"].startswith("hopwalk train umls")
        assert content["data"]["fingerprint"] and content["source"]["source_sha256"] and content["source"]["cpu"]
        assert content["threads"] and content["peak_memory_bytes"] > 0 and "training_seconds" in content
        assert content["history"] and content["status"] == "finished"
        for split in ("valid", "valid_complete_filter", "test"):
            tails = result.numbers(split)["tails"]  # type: ignore[index]
            assert tails["mrr_pessimistic"] <= tails["mrr"] <= tails["mrr_optimistic"] and "unreached" in tails


def test_what_is_done_is_not_done_again(made: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(api, "train", refuse)
    monkeypatch.setattr(api, "train_scorer", refuse)
    before = (made / "report.md").read_text(encoding="utf-8")
    found = reproduce(["all"], out=made, quick=True, changes=TINY)
    assert (found.num_made, found.num_missing) == (0, 0)
    assert (made / "report.md").read_text(encoding="utf-8") == before


def test_what_was_interrupted_goes_on(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Ctrl-C in the second epoch of a walker: noted as unfinished, finished the next time, with the scorer that it began with."""
    shutil.copytree(made / "runs" / "umls-complex-modern-quick-0", tmp_path / "runs" / "umls-complex-modern-quick-0")
    changes = [change for change in TINY if not change.startswith("walker.epochs")] + ["walker.epochs=2"]
    monkeypatch.setattr(api, "load_dataset", lambda *_, **__: SOME)
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)

    class Stopper(running.NullProgress):
        def make_callbacks(self, kind: str, epochs: int) -> list[Any]:
            return [self]

        def on_batch(self, epoch: int, *_: object) -> None:
            if epoch == 2:
                raise KeyboardInterrupt

        def on_evaluation(self, record: object) -> None:
            pass

    spec = {"out": tmp_path, "quick": True, "changes": changes, "seeds": [0]}
    monkeypatch.setattr(
        running, "planned", lambda *_: [Scope(("umls",), None, (*QUICK, *changes)).walker("umls", "complex", "modern")]
    )
    stopped = reproduce(["table1"], progress=Stopper(), **spec)  # type: ignore[arg-type]
    assert stopped.was_interrupted and stopped.num_missing == 1
    (noted,) = [result for result in Ledger(tmp_path / "ledger").results if result.kind == "walker"]
    assert not noted.is_finished and noted.epochs == 1
    finished = reproduce(["table1"], **spec)  # type: ignore[arg-type]
    assert finished.num_made == 1 and not finished.num_missing
    (result,) = [result for result in Ledger(tmp_path / "ledger").results if result.kind == "walker"]
    assert result.is_finished and result.epochs == 2


def test_a_run_of_other_settings_is_left_alone(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A result or run of the same name, made with other settings, stays; the new one has another name."""
    monkeypatch.setattr(api, "load_dataset", lambda *_, **__: SOME)
    shutil.copytree(made / "runs" / "umls-complex-modern-quick-0", tmp_path / "runs" / "umls-complex-modern-quick-0")
    before = (tmp_path / "runs" / "umls-complex-modern-quick-0" / "run.json").read_text()
    maker = running._Maker(Ledger(tmp_path / "ledger"), tmp_path / "runs", None, running.NullProgress())
    changes = (*(change for change in TINY if change.startswith("scorer.")), "scorer.n3=0.5")
    assert maker.make_all([RunSpec("scorer", "umls", "complex", "modern", 0, changes, "quick")]) == (1, False)
    assert (tmp_path / "ledger" / "scorers" / "umls-complex-modern-quick-v2-0.json").exists()
    assert (tmp_path / "runs" / "umls-complex-modern-quick-0" / "run.json").read_text() == before


def test_older_results_get_what_they_lack(made: Path, tmp_path: Path):
    shutil.copytree(made / "ledger", tmp_path / "ledger")
    path = tmp_path / "ledger" / "walkers" / "umls-paper-conve-no-rs-quick-0.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    complete = content.pop("valid_complete_filter")
    path.write_text(json.dumps(content), encoding="utf-8")
    reproduce(["appendix-dev-complete"], out=tmp_path, runs=made / "runs", quick=True, changes=TINY)
    assert json.loads(path.read_text(encoding="utf-8"))["valid_complete_filter"] == complete


def test_any_run_can_be_recorded(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """What is recorded of a run is what `reproduce` said of it; its command names what differs from the recipe."""
    for kind, folder in (("scorers", "umls-complex-modern-quick-0"), ("walkers", "walker-umls-modern-complex-quick-0")):
        arguments = ("record", str(made / "runs" / folder), "--ledger", str(tmp_path), "--note", "again")
        written = Path(command(capsys, *arguments).out.strip().removesuffix(": written").replace("\n", ""))
        assert written.parent == tmp_path / kind
        recorded = json.loads(written.read_text(encoding="utf-8"))
        told = json.loads((made / "ledger" / kind / written.name).read_text(encoding="utf-8"))
        assert (recorded.pop("note"), told.pop("note")) == ("again", "")
        changes = {part for part in recorded.pop("command").split() if "=" in part}
        assert changes <= {part for part in told.pop("command").split() if "=" in part}  # some are what the recipe has anyhow
        assert f"{kind.removesuffix('s')}.epochs=1" in changes
        assert recorded == told
        assert "another name" in command(capsys, *arguments, code=1).err
    members = [made / "runs" / f"umls-{model}-modern-quick-0" for model in ("complex", "distmult")]
    api.combine_scorers(members, out=tmp_path / "both")
    path = record(tmp_path / "both", Ledger(tmp_path))
    content = json.loads(path.read_text(encoding="utf-8"))
    assert [member["name"] for member in content["members"]] == ["1-complex", "2-distmult"] and 0 < content["test"]["tails"][
        "mrr"
    ] < 1
    assert {result.kind for result in Ledger(tmp_path).results} == {"scorer", "walker", "ensemble"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--name", "a/../../b"], "cannot be the name"),
        (["--name", ".."], "cannot be the name"),
        (["--ledger", "a-file"], "this is a file"),
    ],
)
def test_what_cannot_be_recorded(
    made: Path, in_folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
):
    Path("a-file").write_text("")
    run = made / "runs" / "umls-complex-modern-quick-0"
    assert told in " ".join(command(capsys, "record", str(run), *arguments, code=1).err.split())
    assert [path.name for path in in_folder.iterdir()] == ["a-file"]


def test_only_finished_runs_are_recorded(made: Path, tmp_path: Path):
    shutil.copytree(made / "runs" / "umls-complex-modern-quick-0", tmp_path / "run")
    about = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    (tmp_path / "run" / "run.json").write_text(json.dumps(about | {"status": "interrupted"}), encoding="utf-8")
    with pytest.raises(RunError, match="not finished"):
        record(tmp_path / "run", Ledger(tmp_path))


def test_the_command_line(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    printed = command(capsys, "reproduce", "all", "--no-train", "--ledger", str(RESULTS), "--out", "report").out
    assert "report/report.html: written" in printed and "0 were made now" in printed
    printed = command(capsys, "reproduce", "table3", "--plan", "--data", "umls", "--ledger", str(RESULTS)).out
    assert "umls-paper-conve-no-ad-0" in printed and "runs are done" in printed
    assert "no table or figure" in command(capsys, "reproduce", "tabel2", code=1).err
    assert "no list of seeds" in command(capsys, "reproduce", "table2", "--seeds", "a", code=1).err
    helped = command(capsys, "reproduce", "--help").out
    for name in TARGETS:
        assert name in helped.replace("\n", "")
