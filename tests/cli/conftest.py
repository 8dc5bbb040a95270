"""Fixtures of the command line."""

import pytest

from hopwalk.cli.console import console


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """An output of 120 columns, so that tables are not wrapped."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("hopwalk.cli.console.console", console.__wrapped__)  # a new one, which reads the width
