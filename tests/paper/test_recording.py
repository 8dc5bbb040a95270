"""Recording a run in a ledger, however it was made."""

import json
import shutil
from pathlib import Path

import pytest

from hopwalk import api
from hopwalk.errors import RunError
from hopwalk.paper.ledger import Ledger
from hopwalk.paper.recording import record
from tests.support.commands import command
from tests.support.reproducing import SCORER, WALKER


@pytest.mark.parametrize(("kind", "folder"), [("scorers", SCORER), ("walkers", f"walker-{WALKER}")])
def test_a_recorded_run_is_the_same_as_a_reproduced_one(
    reproduced: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, folder: str
):
    """Its command has every setting that differs from the recipe."""
    arguments = ("record", str(reproduced / "runs" / folder), "--ledger", str(tmp_path), "--note", "again")
    written = Path(command(capsys, *arguments).out.strip().removesuffix(": written").replace("\n", ""))
    assert written.parent == tmp_path / kind
    recorded, expected = (
        json.loads(path.read_text(encoding="utf-8")) for path in (written, reproduced / "ledger" / kind / written.name)
    )
    assert (recorded.pop("note"), expected.pop("note")) == ("again", "")
    changes = {part for part in recorded.pop("command").split() if "=" in part}
    assert changes <= {part for part in expected.pop("command").split() if "=" in part}  # some are the recipe's own
    assert f"{kind.removesuffix('s')}.epochs=1" in changes
    assert recorded == expected
    assert "another name" in command(capsys, *arguments, code=1).err


def test_an_ensemble_can_be_recorded(reproduced: Path, tmp_path: Path):
    members = [reproduced / "runs" / f"umls-{model}-modern-quick-0" for model in ("complex", "distmult")]
    api.combine_scorers(members, out=tmp_path / "both")
    content = json.loads(record(tmp_path / "both", Ledger(tmp_path)).read_text(encoding="utf-8"))
    assert [member["name"] for member in content["members"]] == ["1-complex", "2-distmult"]
    assert 0 < content["test"]["tails"]["mrr"] < 1
    assert {result.kind for result in Ledger(tmp_path).results} == {"ensemble"}


def test_the_untrained_control_can_be_recorded(reproduced: Path, tmp_path: Path):
    record(reproduced / "runs" / f"walker-{WALKER}", Ledger(tmp_path), untrained_control=True)
    (result,) = Ledger(tmp_path).results
    assert {*result.content["test"]} == {"policy", "untrained_policy"}
    assert result.mrr("test", "untrained_policy") is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--name", "a/../../b"], "cannot be the name"),
        (["--name", ".."], "cannot be the name"),
        (["--ledger", "a-file"], "this is a file"),
    ],
)
def test_results_that_are_refused(
    reproduced: Path, in_folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
):
    Path("a-file").write_text("")
    run = reproduced / "runs" / SCORER
    assert message in " ".join(command(capsys, "record", str(run), *arguments, code=1).err.split())
    assert [path.name for path in in_folder.iterdir()] == ["a-file"]


def test_only_finished_runs_are_recorded(reproduced: Path, tmp_path: Path):
    shutil.copytree(reproduced / "runs" / SCORER, tmp_path / "run")
    about = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    (tmp_path / "run" / "run.json").write_text(json.dumps(about | {"status": "interrupted"}), encoding="utf-8")
    api.accept(tmp_path / "run")
    with pytest.raises(RunError, match="not finished"):
        record(tmp_path / "run", Ledger(tmp_path))
