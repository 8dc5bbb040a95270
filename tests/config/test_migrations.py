"""Names that changed since the first version: settings, parameters, rankings, keys of results."""

from pathlib import Path
from typing import Any

import pytest

from hopwalk.config.loading import load_run_settings, load_settings
from hopwalk.config.migrations import (
    IGNORED_SETTINGS,
    REMOVED_SETTINGS,
    RENAMED_SETTINGS,
    migrated_keys,
    migrated_parameter,
    migrated_rankings,
    migrated_settings,
)
from hopwalk.config.settings import Settings, dotted_names, set_dotted
from hopwalk.errors import SettingsError


def nested(name: str, value: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    set_dotted(values, name, value)
    return values


def write_toml(path: Path, name: str, value: str) -> Path:
    group, key = name.split(".")
    path.write_text(f"[{group}]\n{key} = {value}\n")
    return path


# Settings

OLD_VALUES: dict[str, Any] = {  # none of them is a default
    "walker.learn_valid": True,
    "walker.dev_questions": 7,
    "scorer.learn_valid": True,
    "scorer.candidates": 4096,
    "scorer.picture_height": 20,
}


def test_every_renamed_setting_is_tested_and_its_new_name_exists():
    assert OLD_VALUES.keys() == RENAMED_SETTINGS.keys()
    names = {*dotted_names()}
    assert {*RENAMED_SETTINGS.values()} <= names
    assert names.isdisjoint([*RENAMED_SETTINGS, *REMOVED_SETTINGS, *IGNORED_SETTINGS])


@pytest.mark.parametrize("name", OLD_VALUES)
def test_renamed_settings(tmp_path: Path, name: str):
    new_name, value = RENAMED_SETTINGS[name], OLD_VALUES[name]
    before = nested(name, value)
    assert migrated_settings(before) == nested(new_name, value)
    assert before == nested(name, value)  # the argument is not changed
    path = write_toml(tmp_path / "old.toml", name, str(value).lower())
    group, key = new_name.split(".")
    assert getattr(getattr(load_settings(path), group), key) == value
    assert getattr(getattr(load_run_settings(path), group), key) == value


def test_a_new_name_wins_over_the_old_one():
    both = {"scorer": {"candidates": 4096, "num_sampled_tails": 7}}
    assert migrated_settings(both) == {"scorer": {"num_sampled_tails": 7}}


@pytest.mark.parametrize("name", OLD_VALUES)
def test_an_override_with_an_old_name_gives_the_new_name(name: str):
    with pytest.raises(SettingsError, match=f"{name} is now called {RENAMED_SETTINGS[name]}"):
        load_settings(overrides=[f"{name}={str(OLD_VALUES[name]).lower()}"])


@pytest.mark.parametrize("name", REMOVED_SETTINGS)
def test_removed_settings_are_dropped_if_they_had_their_default(tmp_path: Path, name: str):
    default = REMOVED_SETTINGS[name]
    assert migrated_settings(nested(name, default)) == {name.split(".")[0]: {}}
    path = write_toml(tmp_path / "old.toml", name, str(default).lower())
    assert load_settings(path) == Settings()
    assert load_run_settings(path).graph == Settings().graph


@pytest.mark.parametrize(
    ("name", "value"), [("graph.damping", 0.5), ("walker.action_dropout_decay", 0.9), ("walker.hides_shortcuts", True)]
)
def test_another_value_of_a_removed_setting_is_refused(tmp_path: Path, name: str, value: Any):
    assert name in REMOVED_SETTINGS
    with pytest.raises(SettingsError, match=f"{name} no longer exists, and here it has another value than"):
        migrated_settings(nested(name, value))
    with pytest.raises(SettingsError, match=f"{name} no longer exists"):
        load_settings(write_toml(tmp_path / "old.toml", name, str(value).lower()))


@pytest.mark.parametrize("name", REMOVED_SETTINGS)
def test_a_removed_setting_cannot_be_set(name: str):
    with pytest.raises(SettingsError, match=f"there is no setting '{name}'"):
        load_settings(overrides=[f"{name}={str(REMOVED_SETTINGS[name]).lower()}"])


@pytest.mark.parametrize("value", ["0.0", "0.7", '"auto"'])
@pytest.mark.parametrize("name", IGNORED_SETTINGS)
def test_how_the_scorer_took_part_in_the_ranking_is_ignored(tmp_path: Path, name: str, value: str):
    """Runs and presets that say it open; whether their weights can be used is seen when these are loaded."""
    path = write_toml(tmp_path / "old.toml", name, value)
    assert load_settings(path) == Settings() and load_run_settings(path).walker == Settings().walker
    with pytest.raises(SettingsError, match=f"there is no setting '{name}'"):
        load_settings(overrides=[f"{name}={value}"])


def test_settings_younger_than_a_run_have_their_defaults_there(tmp_path: Path):
    """Not those of its recipe, which came later: the run was made without them."""
    path = tmp_path / "settings.toml"
    path.write_text('[scorer]\nmodel = "conve"\nrecipe = "paper"\n[walker]\nrecipe = "paper"\n')
    settings = load_run_settings(path)
    assert (settings.scorer.conve_layers, settings.scorer.smoothing_sum) == ("original", 0.0)
    assert settings.walker.dropout_masks == "walk"
    assert load_settings(path).scorer.conve_layers == "released"  # as a preset it stands for the recipe


@pytest.mark.parametrize("values", [{}, {"walker": 5}, {"graph": "x", "scorer": [1]}, {"unknown": {"learn_valid": True}}])
def test_values_that_are_no_groups_are_left_to_validation(values: dict[str, Any]):
    assert migrated_settings(values) == values


# Parameters


@pytest.mark.parametrize(
    ("model", "name", "new_name"),
    [
        ("walker", "hidden.weight", "w1.weight"),
        ("walker", "output.bias", "w2.bias"),
        ("walker", "model.output.weight", "model.w2.weight"),
        ("walker", "learner.optimizer.hidden.bias.exp_avg", "learner.optimizer.w1.bias.exp_avg"),
        ("walker", "w1.weight", "w1.weight"),
        ("walker", "lstm.hidden.weight", "lstm.hidden.weight"),
        ("walker", "hidden_size", "hidden_size"),
        ("conve", "hidden.weight", "hidden.weight"),
    ],
)
def test_parameters(model: str, name: str, new_name: str):
    assert migrated_parameter(model, name) == new_name


# Rankings


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"paths": 1}, {"policy": 1}),  # without a scorer
        ({"paths": 1, "scorer": 2, "blend 0.3": 3}, {"policy": 1, "scorer": 2, "blend 0.3": 3}),
        ({"paths": 1, "probability": 4, "scorer": 2, "blend 0.3": 3}, {"policy": 4, "scorer": 2, "blend 0.3": 3}),
        ({"policy": 1, "reranked": 2, "scorer": 3, "blend": 4}, {"policy": 1, "reranked": 2, "scorer": 3, "blend": 4}),
        ({"scorer": 1}, {"scorer": 1}),
        ({}, {}),
    ],
)
def test_rankings(old: dict[str, int], new: dict[str, int]):
    before = dict(old)
    assert migrated_rankings(old) == new
    assert old == before


# Keys of results


def test_keys_of_results():
    old = {"num_questions": 3, "parts": [{"num_questions": 1, "mrr": 0.5}, "num_questions"], "run": {"has_learnt_dev": True}}
    new = {"num_queries": 3, "parts": [{"num_queries": 1, "mrr": 0.5}, "num_questions"], "run": {"trained_on_dev": True}}
    assert migrated_keys(old) == new == migrated_keys(new)
    assert "num_questions" in old
    unchanged: list[Any] = [None, 3, 0.5, "num_questions", []]
    for value in unchanged:
        assert migrated_keys(value) == value
