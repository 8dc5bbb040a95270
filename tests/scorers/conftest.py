"""Runs that tests of scorers share."""

from pathlib import Path

import pytest

from tests.support.circles import train_on_circle


@pytest.fixture(scope="session")
def members(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Run folders of two scorers of the circle, to be combined; not to be changed."""
    folder = tmp_path_factory.mktemp("members")
    return [train_on_circle(folder / model, model=model).path for model in ("distmult", "complex")]
