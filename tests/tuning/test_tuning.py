"""A search for settings: what can be tried, the same trials however often it is stopped, and a preset that holds the best."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hopwalk import api
from hopwalk.config.settings import Settings, changed
from hopwalk.config.loading import load_settings
from hopwalk.data.dataset import Dataset
from hopwalk.errors import DataError, MissingPackageError, SavedFileError, SettingsError
from hopwalk.learning import training
from hopwalk.learning.run import Run
from hopwalk.tuning.spaces import Choice, Range, load_space
from hopwalk.tuning.study import Tuned
from tests.support.commands import command
from tests.support.helpers import FAMILY, dataset_of
from tests.support.stopping import StopAt
from tests.support.villages import VILLAGE, settings_of

pytest.importorskip("optuna")

SPACE = """
[scorer]
"scorer.learning_rate" = { low = 0.001, high = 0.5, log = true }
"scorer.batch_size" = { low = 32, high = 128 }
[complex]
"scorer.n3" = [0.0, 0.01, 0.1]
[walker]
walker.action_dropout = { low = 0.0, high = 0.5 }
walk.hops = [1, 2]
"""


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "space.toml"
    path.write_text(SPACE)
    return path


def tuned(folder: Path, space: Path, trials: int = 5, **given: Any) -> Tuned:
    settings = settings_of({"scorer.epochs": 3, "walker.epochs": 1, **given.pop("settings", {})})
    return api.tune(VILLAGE, settings, study=folder / "study.db", space=space, trials=trials, **{"what": "complex", **given})


# Spaces


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
def test_ready_made_spaces_fit_and_the_papers_are_grids(name: str, what: str):
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
    ("text", "told"),
    [
        ("[scorer]\n'scorer.rate' = [1]", "no setting 'scorer.rate'"),
        ("[scorer]\n'scorer.n3' = 0.5", "neither a choice nor a range"),
        ("[scorer]\n'scorer.n3' = []", "neither a choice nor a range"),
        ("[scorer]\n'scorer.n3' = { low = 1 }", "neither a choice nor a range"),
        ("[scorer]\n'scorer.n3' = { low = 1, high = 0 }", "no range from 1 to 0"),
        ("[scorer]\n'scorer.n3' = { low = 0, high = 1, log = true }", "no range from 0 to 1"),
        ("[scorer]\n'scorer.n3' = [-1.0]", "scorer.n3 = -1.0 does not fit"),
        ("[walker]\n'walk.hops' = [2]", "nothing to tune of complex"),
        ("scorer = 3", "no table of settings"),
        ("[scorer", "not valid TOML"),
    ],
)
def test_spaces_that_do_not_fit(tmp_path: Path, text: str, told: str):
    path = tmp_path / "space.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=told):
        load_space(path, "complex", Settings())


def test_a_space_that_is_not_there():
    with pytest.raises(SettingsError, match=r"cannot be read.*Did you mean 'modern'"):
        load_space("moderm", "complex", Settings())


# Studies


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "space.toml").write_text(SPACE)
    return tuned(folder, folder / "space.toml", trials=5, pruner="none")


def test_trials_stay_in_the_space_and_the_best_comes_first(found: Tuned):
    assert len(found.trials) == 5
    for trial in found.trials:
        assert 0.001 <= trial.values["scorer.learning_rate"] <= 0.5 and trial.values["scorer.n3"] in (0.0, 0.01, 0.1)
        assert isinstance(trial.values["scorer.batch_size"], int) and trial.epochs == 3
    mrrs = [trial.mrr for trial in found.trials]
    assert mrrs == sorted(mrrs, reverse=True, key=float)  # type: ignore[arg-type]


def test_the_recipe_itself_is_tried_first(tmp_path: Path):
    own = {"scorer.learning_rate": 0.07, "scorer.n3": 0.01}
    for number, (values, is_first) in enumerate((([0.0, 0.01], True), ([0.0, 0.02], False))):
        path = tmp_path / f"{number}.toml"
        path.write_text(f"[scorer]\n'scorer.learning_rate' = {{ low = 0.01, high = 0.1 }}\n'scorer.n3' = {values}")
        (tmp_path / f"{number}").mkdir()
        (trial,) = tuned(tmp_path / f"{number}", path, trials=1, settings=own | {"scorer.epochs": 1}).trials
        assert (trial.values == own) == is_first


def test_the_best_settings_are_a_preset_and_the_best_run_is_kept(found: Tuned):
    assert found.preset is not None and found.settings is not None
    best = found.trials[0]
    assert load_settings(found.preset) == found.settings
    assert found.settings == changed(settings_of({"scorer.epochs": 3, "walker.epochs": 1}), best.values)
    (kept,) = (found.study.with_suffix("") / "trials").iterdir()
    assert Run.open(kept).about["valid_mrr"] == best.mrr
    assert f"{100 * (best.mrr or 0):.2f}" in found.preset.read_text()


def test_importance_has_a_picture(found: Tuned):
    assert set(found.importance) == {"scorer.learning_rate", "scorer.batch_size", "scorer.n3"}
    assert sum(found.importance.values()) == pytest.approx(1)
    picture = (found.study.with_suffix("") / "importance.svg").read_text()
    assert "scorer.n3" in picture and ElementTree.fromstring(picture).get("role") == "img"


def test_the_same_seed_tries_the_same_however_often_it_is_stopped(found: Tuned, tmp_path: Path, space: Path, monkeypatch: Any):
    """Ctrl-C in the middle of the fourth trial, then the same call again."""
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    begun: list[int] = []

    def watch(kind: str, epochs: int) -> list[Any]:
        return [StopAt(2, 1, KeyboardInterrupt)] if len(begun) == 4 else []

    def on_trial(number: int, total: int, values: Mapping[str, Any]) -> None:
        begun.append(number)

    stopped = tuned(tmp_path, space, trials=5, pruner="none", make_callbacks=watch, on_trial=on_trial)
    assert stopped.was_interrupted and len(stopped.trials) == 3
    assert len([*(tmp_path / "study" / "trials").iterdir()]) == 2  # the best, and the one that was stopped
    whole = tuned(tmp_path, space, trials=5, pruner="none", on_trial=on_trial)
    assert begun == [1, 2, 3, 4, 4, 5]
    assert not whole.was_interrupted
    assert [(trial.mrr, trial.values) for trial in whole.trials] == [(trial.mrr, trial.values) for trial in found.trials]
    again = tuned(tmp_path, space, trials=5, pruner="none", on_trial=on_trial)
    assert again.trials == whole.trials and len(begun) == 6


def test_trials_that_do_badly_are_given_up(tmp_path: Path):
    """After four that learn, as this seed has it, one with a step size of next to nothing."""
    path = tmp_path / "space.toml"
    path.write_text("[scorer]\n'scorer.learning_rate' = [0.1, 1e-9]")
    found = tuned(tmp_path, path, trials=5, settings={"scorer.epochs": 4, "scorer.seed": 4})
    pruned = [trial for trial in found.trials if trial.was_pruned]
    assert pruned and all(trial.values["scorer.learning_rate"] == 1e-9 and trial.epochs < 4 for trial in pruned)
    assert found.settings is not None and found.settings.scorer.learning_rate == 0.1
    assert [trial.was_pruned for trial in found.trials] == sorted(trial.was_pruned for trial in found.trials)


def test_a_trial_that_diverges_is_given_up_and_the_next_one_tried(tmp_path: Path):
    path = tmp_path / "space.toml"
    path.write_text("[scorer]\n'scorer.learning_rate' = [1e30, 0.1]")
    found = tuned(tmp_path, path, trials=4, settings={"scorer.learning_rate": 1e30})
    assert all(trial.was_pruned == (trial.values["scorer.learning_rate"] == 1e30) for trial in found.trials)
    assert len(found.trials) == 4 and found.trials[-1].mrr is None
    assert found.settings is not None and found.settings.scorer.learning_rate == 0.1


def test_a_walker_is_tuned_with_one_scorer(tmp_path: Path, space: Path):
    trained: list[str] = []

    def watch(kind: str, epochs: int) -> list[Any]:
        trained.append(kind)
        return []

    found = tuned(tmp_path, space, trials=2, what="walker", pruner="hyperband", make_callbacks=watch)
    assert trained == ["scorer", "walker", "walker"]
    assert {*found.trials[0].values} == {"walker.action_dropout", "walk.hops"}
    (kept,) = (tmp_path / "study" / "trials").iterdir()
    assert Run.open(kept).about["kind"] == "walker"
    assert not found.importance  # too few trials to tell
    with pytest.raises(SettingsError, match="other"):
        tuned(tmp_path, space, trials=3, what="walker", scorer=tmp_path / "study" / "scorer")


def test_a_walker_is_tuned_with_the_scorer_it_began_with(tmp_path: Path, space: Path):
    scorers = [
        api.train_scorer(VILLAGE, settings_of({"scorer.epochs": 1, "scorer.seed": seed}), out=tmp_path / f"{seed}").path
        for seed in (0, 1)
    ]
    tuned(tmp_path, space, trials=1, what="walker", scorer=scorers[0])
    both = api.combine_scorers(scorers, out=tmp_path / "both").path
    nested = api.combine_scorers([both, scorers[0]], out=tmp_path / "nested").path
    for other in (scorers[1], both, nested):
        with pytest.raises(SettingsError, match="the study has begun with other rewards"):
            tuned(tmp_path, space, trials=2, what="walker", scorer=other)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"what": "distmult"}, "other what is tuned"),
        ({"settings": {"scorer.dimension": 9}}, "other settings"),
        ({"fixed": ["scorer.n3"]}, "other space"),
    ],
)
def test_a_study_of_something_else_is_refused(tmp_path: Path, space: Path, changes: dict, told: str):
    tuned(tmp_path, space, trials=1)
    with pytest.raises(SettingsError, match=told):
        tuned(tmp_path, space, trials=2, **changes)


def test_what_cannot_be_tuned(tmp_path: Path, space: Path, monkeypatch: pytest.MonkeyPatch):
    without_dev: Dataset = dataset_of(FAMILY)
    with pytest.raises(DataError, match="no dev questions"):
        api.tune(without_dev, study=tmp_path / "x.db", what="complex", space=space)
    with pytest.raises(SettingsError, match="no pruner 'axe'"):
        tuned(tmp_path, space, pruner="axe")
    with pytest.raises(SettingsError, match="learnt the dev facts"):
        tuned(tmp_path, space, settings={"scorer.train_on_valid": True})
    with pytest.raises(SettingsError, match="has an ending"):
        api.tune(VILLAGE, study=tmp_path / "study", what="complex", space=space)
    (tmp_path / "study.db").write_text("no database, but text that is long enough to be looked at " * 20)
    with pytest.raises(SavedFileError, match="no study that can be read"):
        tuned(tmp_path, space)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingPackageError, match="optuna"):
        tuned(tmp_path, space)


def test_the_command_line(space: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for split in ("train", "valid", "test"):
        rows = VILLAGE.labels_of(VILLAGE.splits[split])
        (tmp_path / "data" / f"{split}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    given = [
        "tune",
        "data",
        "--scorer",
        "complex",
        "--space",
        str(space),
        "--trials",
        "2",
        "--epochs",
        "2",
        "--set",
        "scorer.dimension=8",
    ]
    printed = command(capsys, *given, "--set", "scorer.n3=0.01")
    assert "dev MRR" in printed.out and "tuning/data-complex/best.toml" in printed.out and "trial 2 of 2" in printed.err
    assert "n3" not in printed.err  # it was said
    found = json.loads(command(capsys, *given, "--set", "scorer.n3=0.01", "--json").out)
    assert len(found["trials"]) == 2
    trained = command(
        capsys, "train", "data", "--scorer", "complex", "--preset", "tuning/data-complex/best.toml", "--out", "best"
    )
    assert "finished" in trained.out
    assert "other space" in command(capsys, *given, code=1).err
