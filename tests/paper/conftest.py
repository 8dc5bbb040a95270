"""A tiny reproduction that the tests of running and recording share."""

from pathlib import Path

import pytest

from tests.support.reproducing import reproduce_tiny


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny reproduction of everything; not to be changed."""
    folder = tmp_path_factory.mktemp("reproduced")
    found = reproduce_tiny(["all"], folder)
    assert found.num_made > 10 and not found.num_missing and not found.was_interrupted
    return folder
