"""Studies: the same trials however often tuning is interrupted, pruning, and a preset with the best settings."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hopwalk import api
from hopwalk.config.loading import load_settings
from hopwalk.config.settings import changed
from hopwalk.data.dataset import Dataset
from hopwalk.errors import DataError, DivergedError, MissingPackageError, SavedFileError, SettingsError
from hopwalk.learning.callbacks import Callback, TrainingPlan
from hopwalk.learning.run import Run
from hopwalk.tuning.study import Tuned
from tests.support.helpers import FAMILY, dataset_of
from tests.support.stopping import Recorder, StopAt
from tests.support.tuning import SPACE
from tests.support.villages import VILLAGE, settings_of

pytest.importorskip("optuna")


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "space.toml"
    path.write_text(SPACE)
    return path


def tuned(folder: Path, space: Path, trials: int = 5, **given: Any) -> Tuned:
    settings = settings_of({"scorer.epochs": 3, "walker.epochs": 1, **given.pop("settings", {})})
    return api.tune(VILLAGE, settings, study=folder / "study.db", space=space, trials=trials, **{"what": "complex", **given})


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


def test_the_recipe_is_the_first_trial(tmp_path: Path):
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


def test_importance_has_a_chart(found: Tuned):
    assert set(found.importance) == {"scorer.learning_rate", "scorer.batch_size", "scorer.n3"}
    assert sum(found.importance.values()) == pytest.approx(1)
    chart = (found.study.with_suffix("") / "importance.svg").read_text()
    assert "scorer.n3" in chart and ElementTree.fromstring(chart).get("role") == "img"


@pytest.mark.usefixtures("checkpoints")
def test_interruptions_do_not_change_the_trials(found: Tuned, tmp_path: Path, space: Path):
    """Ctrl-C in the middle of the fourth trial, then the same call again."""
    begun: list[int] = []

    def stop_the_fourth(plan: TrainingPlan) -> Sequence[Callback]:
        return [StopAt(2, 1, KeyboardInterrupt)] if len(begun) == 4 else []

    def on_trial(number: int, total: int, values: Mapping[str, Any]) -> None:
        begun.append(number)

    stopped = tuned(tmp_path, space, trials=5, pruner="none", make_callbacks=stop_the_fourth, on_trial=on_trial)
    assert stopped.was_interrupted and len(stopped.trials) == 3
    assert len([*(tmp_path / "study" / "trials").iterdir()]) == 2  # the best, and the interrupted one
    whole = tuned(tmp_path, space, trials=5, pruner="none", on_trial=on_trial)
    assert begun == [1, 2, 3, 4, 4, 5]
    assert not whole.was_interrupted
    assert [(trial.mrr, trial.values) for trial in whole.trials] == [(trial.mrr, trial.values) for trial in found.trials]
    again = tuned(tmp_path, space, trials=5, pruner="none", on_trial=on_trial)
    assert again.trials == whole.trials and len(begun) == 6


def test_bad_trials_are_pruned(tmp_path: Path):
    """With this seed, four trials that learn are followed by one whose learning rate is almost 0."""
    path = tmp_path / "space.toml"
    path.write_text("[scorer]\n'scorer.learning_rate' = [0.1, 1e-9]")
    found = tuned(tmp_path, path, trials=5, settings={"scorer.epochs": 4, "scorer.seed": 4})
    pruned = [trial for trial in found.trials if trial.was_pruned]
    assert pruned and all(trial.values["scorer.learning_rate"] == 1e-9 and trial.epochs < 4 for trial in pruned)
    assert found.settings is not None and found.settings.scorer.learning_rate == 0.1
    assert [trial.was_pruned for trial in found.trials] == sorted(trial.was_pruned for trial in found.trials)


def test_a_trial_that_diverges_is_pruned(tmp_path: Path):
    path = tmp_path / "space.toml"
    path.write_text("[scorer]\n'scorer.learning_rate' = [0.3, 0.1]")
    rates: list[float] = []

    class Diverging(Recorder):
        def on_batch(self, epoch: int, batch: int, num_batches: int, values: Mapping[str, float]) -> None:
            if rates[-1] == 0.3:
                raise DivergedError("training diverged: the loss is nan")

    def on_trial(number: int, total: int, values: Mapping[str, Any]) -> None:
        rates.append(values["scorer.learning_rate"])

    settings = {"scorer.learning_rate": 0.3}
    found = tuned(tmp_path, path, trials=4, settings=settings, on_trial=on_trial, make_callbacks=lambda _: [Diverging()])
    assert {*rates} == {0.3, 0.1}
    assert all(trial.was_pruned == (trial.values["scorer.learning_rate"] == 0.3) for trial in found.trials)
    assert len(found.trials) == 4 and found.trials[-1].mrr is None
    assert found.settings is not None and found.settings.scorer.learning_rate == 0.1


def test_a_walker_is_tuned_with_one_scorer(tmp_path: Path, space: Path):
    trained: list[str] = []

    def note(plan: TrainingPlan) -> Sequence[Callback]:
        trained.append(plan.kind)
        return []

    found = tuned(tmp_path, space, trials=2, what="walker", pruner="hyperband", make_callbacks=note)
    assert trained == ["scorer", "walker", "walker"]
    assert {*found.trials[0].values} == {"walker.action_dropout", "walk.hops"}
    (kept,) = (tmp_path / "study" / "trials").iterdir()
    assert Run.open(kept).about["kind"] == "walker"
    assert not found.importance  # too few trials
    with pytest.raises(SettingsError, match="the study was begun with other settings"):
        tuned(tmp_path, space, trials=3, what="walker", scorer=tmp_path / "study" / "scorer")


def test_a_walker_is_always_tuned_with_the_same_scorer(tmp_path: Path, space: Path):
    scorers = [
        api.train_scorer(VILLAGE, settings_of({"scorer.epochs": 1, "scorer.seed": seed}), out=tmp_path / f"{seed}").path
        for seed in (0, 1)
    ]
    tuned(tmp_path, space, trials=1, what="walker", scorer=scorers[0])
    both = api.combine_scorers(scorers, out=tmp_path / "both").path
    nested = api.combine_scorers([both, scorers[0]], out=tmp_path / "nested").path
    for other in (scorers[1], both, nested):
        with pytest.raises(SettingsError, match="the study was begun with another scorer"):
            tuned(tmp_path, space, trials=2, what="walker", scorer=other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"what": "distmult"}, "begun with another model"),
        ({"settings": {"scorer.dimension": 9}}, "begun with other settings"),
        ({"fixed": ["scorer.n3"]}, "begun with another space"),
    ],
)
def test_a_study_of_other_inputs_is_refused(tmp_path: Path, space: Path, changes: dict, message: str):
    tuned(tmp_path, space, trials=1)
    with pytest.raises(SettingsError, match=message):
        tuned(tmp_path, space, trials=2, **changes)


def test_inputs_that_are_refused(tmp_path: Path, space: Path, monkeypatch: pytest.MonkeyPatch):
    without_dev: Dataset = dataset_of(FAMILY)
    with pytest.raises(DataError, match="no dev queries"):
        api.tune(without_dev, study=tmp_path / "x.db", what="complex", space=space)
    with pytest.raises(SettingsError, match="no pruner 'axe'"):
        tuned(tmp_path, space, pruner="axe")
    with pytest.raises(SettingsError, match="a model trained on the dev set cannot be tuned on it"):
        tuned(tmp_path, space, settings={"scorer.train_on_valid": True})
    with pytest.raises(SettingsError, match="needs a suffix"):
        api.tune(VILLAGE, study=tmp_path / "study", what="complex", space=space)
    (tmp_path / "study.db").write_text("not a database, but text that is long enough to be read " * 20)
    with pytest.raises(SavedFileError, match="the study cannot be read"):
        tuned(tmp_path, space)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingPackageError, match="optuna"):
        tuned(tmp_path, space)
