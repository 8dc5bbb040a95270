"""Search spaces: the settings that can be tuned, and errors in files that define them."""

from pathlib import Path

import pytest

from hopwalk.config.loading import load_settings
from hopwalk.config.settings import Settings
from hopwalk.errors import SettingsError
from hopwalk.tuning.spaces import Choice, Range, load_space
from tests.support.tuning import SPACE


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "space.toml"
    path.write_text(SPACE)
    return path


def test_a_space_is_read(space: Path):
    found = load_space(space, "ComplEx", Settings())
    assert found == {
        "scorer.learning_rate": Range(0.001, 0.5, log=True),
        "scorer.batch_size": Range(32, 128, is_whole=True),
        "scorer.n3": Choice((0.0, 0.01, 0.1)),
    }
    assert set(load_space(space, "walker", Settings())) == {"walker.action_dropout", "walk.hops"}
    assert set(load_space(space, "conve", Settings(), ["scorer.batch_size"])) == {"scorer.learning_rate"}


@pytest.mark.parametrize("name", ["paper", "modern"])
@pytest.mark.parametrize("what", ["distmult", "complex", "conve", "walker"])
def test_spaces_of_the_package_fit_and_the_papers_are_grids(name: str, what: str):
    found = load_space(name, what, load_settings("umls"))
    assert len(found) > 1
    assert name == "modern" or all(isinstance(dimension, Choice) for dimension in found.values())


def test_the_papers_grid_is_that_of_its_section():
    grid = load_space("paper", "walker", Settings())
    assert grid["walk.hops"] == Choice((2, 3))
    for name, low, high in (
        ("graph.fan_out", 256, 512),
        ("walker.action_dropout", 0.1, 0.9),
        ("walker.entropy", 0.0, 0.1),
        ("walker.learning_rate", 0.001, 0.003),
        ("walker.batch_size", 128, 512),
        ("walker.embedding_dropout", 0.0, 0.5),
    ):
        dimension = grid[name]
        assert isinstance(dimension, Choice) and (min(dimension.values), max(dimension.values)) == (low, high)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[scorer]\n'scorer.rate' = [1]", "no setting 'scorer.rate'"),
        ("[scorer]\n'scorer.n3' = 0.5", "neither a choice nor a range"),
        ("[scorer]\n'scorer.n3' = []", "neither a choice nor a range"),
        ("[scorer]\n'scorer.n3' = { low = 1 }", "neither a choice nor a range"),
        ("[scorer]\n'scorer.n3' = { low = 1, high = 0 }", "cannot have a range from 1 to 0"),
        ("[scorer]\n'scorer.n3' = { low = 0, high = 1, log = true }", "cannot have a range from 0 to 1"),
        ("[scorer]\n'scorer.n3' = [-1.0]", "scorer.n3 = -1.0 is not valid"),
        ("[walker]\n'walk.hops' = [2]", "the space has no settings of complex"),
        ("scorer = 3", "not a table of settings"),
        ("[scorer", "not valid TOML"),
    ],
)
def test_spaces_that_do_not_fit(tmp_path: Path, text: str, message: str):
    path = tmp_path / "space.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=message):
        load_space(path, "complex", Settings())


def test_a_space_that_does_not_exist():
    with pytest.raises(SettingsError, match=r"cannot be read.*Did you mean 'modern'"):
        load_space("moderm", "complex", Settings())
