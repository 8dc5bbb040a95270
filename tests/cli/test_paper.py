"""`hopwalk reproduce` at the command line."""

from pathlib import Path

import pytest

from hopwalk.paper.plan import TARGETS
from hopwalk.paper.running import Reproduced
from tests.support.commands import command

RESULTS = Path(__file__).parents[2] / "results"


def test_a_report_without_training(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    printed = command(capsys, "reproduce", "all", "--no-train", "--ledger", str(RESULTS), "--out", "report").out
    assert "report/report.html: written" in printed and "0 trained now" in printed
    assert (in_folder / "report" / "report.md").read_text(encoding="utf-8").startswith("# The paper, reproduced\n")


def test_the_plan(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    printed = command(capsys, "reproduce", "table3", "--plan", "--data", "umls", "--ledger", str(RESULTS)).out
    assert "umls-paper-conve-no-ad-0" in printed and "hopwalk train umls --walker paper" in printed
    assert printed.splitlines()[-1].endswith(" runs done")
    assert not any(in_folder.iterdir())


def test_an_interrupted_reproduction_exits_with_130(
    in_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    interrupted = Reproduced(num_planned=3, num_made=1, num_missing=2, was_interrupted=True)
    monkeypatch.setattr("hopwalk.api.reproduce", lambda *_, **__: interrupted)
    printed = command(capsys, "reproduce", "table2", code=130).out
    assert printed == "3 runs needed, 1 trained now; 2 are missing (see --plan)\nInterrupted. Continue with the same command.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tabel2"], "no table or figure"),
        (["table2", "--seeds", "a"], "'a' is not a list of seeds"),
        (["table2", "--only", "zzz"], "See the plan (--plan) for their names."),
        (["table2", "--quick", "--data", "kinship"], "a quick reproduction has only umls"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes(in_folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str):
    assert message in command(capsys, "reproduce", *arguments, code=1).err


def test_the_help_names_every_target(capsys: pytest.CaptureFixture[str]):
    printed = command(capsys, "reproduce", "--help").out.replace("\n", "")
    assert all(name in printed for name in TARGETS)
