"""Settings from all sources: precedence, presets, overrides, and TOML."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hopwalk
from hopwalk.config.loading import (
    commented_toml,
    load_run_settings,
    load_settings,
    preset_names,
    settings_toml,
    suited_bounds,
    suited_settings,
)
from hopwalk.config.settings import Settings, changed, dotted_names, validated
from hopwalk.data import catalog
from hopwalk.errors import SettingsError
from tests.support.helpers import FAMILY, dataset_of

# Precedence: one test for each step of the table in config/loading.py.

SMALL_DENSE = np.full(100, 50)  # the out-degrees of a small dense graph


def suited_settings_of(*names: str) -> dict[str, Any]:
    """The settings that suit the small dense graph, which must differ from the defaults."""
    suited = suited_settings(SMALL_DENSE)
    for name in names:
        group, key = name.split(".")
        assert suited[name] != getattr(getattr(Settings(), group), key)
    return suited


def test_without_any_source_the_defaults_hold():
    assert load_settings() == load_settings("default") == Settings()


def test_what_suits_the_data_overrides_the_defaults():
    suited = suited_settings_of("walk.hops", "scorer.n3", "scorer.batch_size")
    settings = load_settings(suited=suited)
    assert (settings.walk.hops, settings.scorer.n3, settings.scorer.batch_size) == (2, 0.005, 128)
    assert settings == changed(Settings(), suited)


def test_a_recipe_overrides_what_suits_the_data():
    suited = suited_settings_of("scorer.n3", "scorer.batch_size")
    of_model = load_settings(overrides=["scorer.model=conve"], suited=suited).scorer
    assert of_model.n3 == 0  # ConvE has no N3 penalty, whatever the size of the data
    assert of_model.batch_size == 128  # the recipe does not set it
    paper = load_settings(overrides=["scorer.recipe=paper"], suited=suited).scorer
    assert (paper.n3, paper.batch_size) == (0, 512)
    minerva = load_settings(overrides=["walker.recipe=minerva"], suited={"walker.action_dropout": 0.9}).walker
    assert minerva.action_dropout == 0


def test_the_recipe_for_a_data_set_overrides_the_recipe_for_all():
    scorer, conve = (load_settings(data, overrides=["scorer.model=conve"]).scorer for data in ("default", "umls"))
    assert (scorer.learning_rate, conve.learning_rate) == (0.003, 0.002)
    assert scorer.input_dropout == conve.input_dropout == 0.2
    walker, umls = (load_settings(data, overrides=["walker.recipe=paper"]).walker for data in ("default", "umls"))
    assert (walker.rollouts, umls.rollouts) == (20, 20)
    assert umls.action_dropout == 0.95 != walker.action_dropout


def test_a_preset_overrides_recipes(tmp_path: Path):
    preset = tmp_path / "mine.toml"
    preset.write_text("[scorer]\nrecipe = 'paper'\nbatch_size = 7\n[walker]\nrecipe = 'paper'\nrollouts = 3\n")
    settings = load_settings(preset, suited={"scorer.batch_size": 128, "walk.hops": 2})
    assert (settings.scorer.batch_size, settings.scorer.loss, settings.walker.rollouts) == (7, "binary", 3)
    assert settings.walk.hops == 2  # no other source sets it
    assert load_settings("umls", suited={"walk.hops": 3, "graph.fan_out": 7}).walk.hops == 2
    assert load_settings("umls", suited={"walk.hops": 3, "graph.fan_out": 7}).graph.fan_out == 400


def test_the_command_line_overrides_everything(tmp_path: Path):
    preset = tmp_path / "mine.toml"
    preset.write_text("[scorer]\nrecipe = 'paper'\nbatch_size = 7\nn3 = 0.5\n[walk]\nhops = 4\n")
    overrides = ["scorer.batch_size=9", "walk.hops=1", "scorer.loss=softmax"]
    settings = load_settings(preset, overrides=overrides, suited={"walk.hops": 2, "scorer.batch_size": 128})
    assert (settings.scorer.batch_size, settings.walk.hops, settings.scorer.loss, settings.scorer.n3) == (9, 1, "softmax", 0.5)
    assert load_settings("nell-995", overrides=["graph.fan_out=7", "walk.beam=3"]).graph.fan_out == 7
    assert load_settings(overrides=["walk.hops=1", "walk.hops=2"]).walk.hops == 2  # the last one


def test_the_command_line_chooses_the_recipe_over_the_preset(tmp_path: Path):
    preset = tmp_path / "mine.toml"
    preset.write_text("[scorer]\nrecipe = 'paper'\n")
    assert load_settings(preset).scorer.loss == "binary"
    assert load_settings(preset, overrides=["scorer.recipe=modern"]).scorer.loss == "softmax"


def test_conve_on_small_data_of_your_own_has_no_n3_penalty():
    """End to end: the data suits a small n3, the recipe of ConvE has none, and the recipe wins."""
    dataset = dataset_of(FAMILY)
    assert hopwalk.settings_for("family.tsv", dataset=dataset).scorer.n3 == 0.005
    conve = hopwalk.settings_for("family.tsv", overrides=["scorer.model=conve"], dataset=dataset).scorer
    assert (conve.n3, conve.batch_size) == (0, 128)


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [
        (np.full(100, 50), {"walk.hops": 2, "walker.action_dropout": 0.5, "scorer.n3": 0.005, "scorer.batch_size": 128}),
        (np.full(100, 70), {"walk.hops": 2, "walker.action_dropout": 0.9, "scorer.n3": 0.005, "scorer.batch_size": 128}),
        (np.full(100, 5), {"walk.hops": 3, "walker.action_dropout": 0.1, "scorer.n3": 0.005, "scorer.batch_size": 128}),
        (np.full(5000, 50), {"walk.hops": 3, "walker.action_dropout": 0.5}),
        (np.full(30_000, 5), {"walk.hops": 3, "walker.action_dropout": 0.1, "scorer.num_sampled_tails": 4096}),
        (np.empty(0, int), {"walk.hops": 3, "walker.action_dropout": 0.1, "scorer.n3": 0.005, "scorer.batch_size": 128}),
    ],
    ids=["small, dense", "small, denser", "small, sparse", "medium", "large", "empty"],
)
def test_settings_that_suit_the_data(degrees: np.ndarray, expected: dict[str, Any]):
    assert suited_settings(degrees) == expected


@pytest.mark.parametrize(
    ("degrees", "is_bounded"),
    [
        (np.full(100, 300), False),  # dense, but three layers meet each edge three times at most
        (np.full(50_000, 10), False),
        (np.append(np.full(50_000, 10), 40_000), True),  # a hub that most walks meet
        (np.full(10_000, 80), True),
        (np.empty(0, int), False),
    ],
    ids=["small", "sparse", "hub", "dense", "empty"],
)
def test_propagation_is_bounded_where_a_query_would_cost_what_the_graph_does(degrees: np.ndarray, is_bounded: bool):
    expected = {"propagation.senders": 500, "propagation.fan_out": 400} if is_bounded else {}
    assert suited_bounds(degrees) == expected
    assert load_settings(suited=suited_bounds(degrees)).propagation.fan_out == (400 if is_bounded else 0)


# Settings as TOML


def test_commented_defaults_parse_to_the_defaults(tmp_path: Path):
    text = commented_toml()
    assert validated(tomllib.loads(text)) == Settings()
    (tmp_path / "default.toml").write_text(text)
    assert load_settings(tmp_path / "default.toml") == Settings()


def test_commented_defaults_describe_every_setting():
    group, described = "", {}
    for line in filter(None, commented_toml().splitlines()):
        declaration, _, description = line.partition("  # ")
        if line.startswith("["):
            group = declaration.strip().strip("[]")
        else:
            described[f"{group}.{declaration.split()[0]}"] = description
    fields = {name: type(getattr(Settings(), name.split(".")[0])).model_fields[name.split(".")[1]] for name in dotted_names()}
    assert described == {name: field.description for name, field in fields.items()}


@pytest.mark.parametrize("data", ["default", "umls", "fb15k-237", "nell-995"])
@pytest.mark.parametrize("to_toml", [settings_toml, commented_toml])
def test_settings_survive_toml(tmp_path: Path, data: str, to_toml: Callable[[Settings], str]):
    settings = load_settings(data, overrides=["read.separator=\t", 'read.labels=a "b" \\ é.tsv', "walker.action_dropout=0.3"])
    (tmp_path / "settings.toml").write_text(to_toml(settings))
    assert load_settings(tmp_path / "settings.toml") == settings == load_run_settings(tmp_path / "settings.toml")


# Presets and overrides


def test_every_data_set_of_the_catalog_has_a_preset():
    assert {*catalog.entries()} <= {*preset_names()}


def test_override_may_be_text_with_or_without_quotes():
    assert load_settings(overrides=["read.columns=1,3,2"]).read.columns == "1,3,2"
    assert load_settings(overrides=['read.columns="1,3,2"']).read.columns == "1,3,2"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("graph.fanout=3", "there is no setting 'graph.fanout'. Did you mean 'graph.fan_out'"),
        ("grpah.fan_out=3", "Did you mean 'graph.fan_out'"),
        ("zzz=1", "there is no setting 'zzz'"),
        ("graph=1", "graph"),
        ("graph.fan_out.x=1", "graph.fan_out.x"),
        ("graph.fan_out=0", "graph.fan_out = 0 is not valid: Input should be greater than or equal to 1"),
        ("graph.fan_out=many", "graph.fan_out = 'many' is not valid: Input should be a valid integer"),
        ("graph.damping=1", "there is no setting 'graph.damping'"),
        ("read.format=xml", "read.format = 'xml' is not valid: Input should be 'auto', 'table'"),
        ("split.valid=1.5", "split.valid"),
        ("walk.hops", "not of the form name=value"),
    ],
)
def test_errors_of_overrides(override: str, message: str):
    with pytest.raises(SettingsError) as error:
        load_settings(overrides=[override])
    assert message in str(error.value)


def test_preset_from_a_file(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text("[walk]\nhops = 1\n[graph]\n")
    assert load_settings(path).walk.hops == 1
    assert load_settings(str(path)).walk.hops == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [("[walk\n", "not valid TOML"), ("[walk]\nhop = 1\n", "Did you mean 'walk.hops'"), (None, "cannot be read")],
)
def test_bad_preset_file(tmp_path: Path, content: str | None, message: str):
    path = tmp_path / "mine.toml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SettingsError) as error:
        load_settings(path)
    assert message in str(error.value)


def test_unknown_preset():
    with pytest.raises(SettingsError, match="Did you mean 'umls'"):
        load_settings("umsl")
