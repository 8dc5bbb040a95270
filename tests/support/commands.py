"""The command line, run in this process: what it prints, and the one error that it tells."""

import sys

import pytest

from hopwalk.cli import main


class Output:
    def __init__(self, out: str, err: str) -> None:
        self.out, self.err = out, err


def command(capsys: pytest.CaptureFixture[str], *arguments: str, code: int | None = 0) -> Output:
    """What `hopwalk ARGUMENTS` prints, without the seconds that a process of its own takes to begin."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", ["hopwalk", *arguments])
        main.run()
    printed = capsys.readouterr()
    assert code is None or (ended.value.code or 0) == code, printed.out + printed.err
    assert "Traceback" not in printed.err
    return Output(printed.out, printed.err)


def mistake(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The only error that a command tells, with its remedy."""
    told = command(capsys, *arguments, code=1)
    assert told.out == ""
    lines = told.err.strip().splitlines()
    (place,) = (row for row, line in enumerate(lines) if line.startswith("error: "))
    assert len(lines) - place <= 2  # what is wrong, and what to do
    return " ".join(line.strip() for line in lines[place:])
