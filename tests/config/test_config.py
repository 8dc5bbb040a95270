import pytest
from pydantic import ValidationError

from hopwalk.config.settings import Settings, changed
from hopwalk.config.loading import load_settings, preset_names
from hopwalk.data import catalog
from hopwalk.errors import SettingsError


def test_default_preset_equals_the_defaults_in_code():
    assert load_settings("default") == Settings()


def test_every_data_set_of_the_catalog_has_a_preset():
    assert {*catalog.entries()} <= {*preset_names()}


@pytest.mark.parametrize(
    ("preset", "fan_out", "hops", "beam"),
    [
        ("umls", 400, 2, 128),
        ("kinship", 400, 2, 128),
        ("fb15k-237", 400, 3, 128),
        ("wn18rr", 500, 3, 128),
        ("nell-995", 256, 3, 512),
    ],
)
def test_presets_have_the_settings_of_the_paper(preset: str, fan_out: int, hops: int, beam: int):
    settings = load_settings(preset, overrides=["walker.recipe=paper"])
    assert (settings.graph.fan_out, settings.walk.hops, settings.walk.beam) == (fan_out, hops, beam)


def test_a_recipe_may_choose_the_beam_and_the_hops():
    assert load_settings("fb15k-237").walk.beam == 512
    assert load_settings("fb15k-237").walk.hops == 3
    assert load_settings("wn18rr").walk.hops == 5
    assert load_settings("wn18rr", overrides=["walk.hops=2"]).walk.hops == 2
    assert load_settings("fb15k-237", overrides=["walk.beam=64"]).walk.beam == 64


@pytest.mark.parametrize("data", ["umls", "kinship", "fb15k-237", "wn18rr", "nell-995"])
def test_recipes_of_walkers(data: str):
    """What the paper and MINERVA say of their walkers holds for every data set."""
    paper = load_settings(data, overrides=["walker.recipe=paper"]).walker
    assert (paper.estimator, paper.rollouts, paper.guidance, paper.reward_shaping) == ("sampled", 20, 0.0, True)
    assert (paper.dimension, paper.history_dimension, paper.history_layers, paper.baseline) == (200, 200, 3, "none")
    minerva = load_settings(data, overrides=["walker.recipe=minerva"]).walker
    assert (minerva.reward_shaping, minerva.action_dropout, minerva.guidance, minerva.baseline) == (False, 0.0, 0.0, "average")
    assert load_settings(data).walker.guidance > 0


def test_override_wins_over_preset():
    assert load_settings("nell-995", overrides=["graph.fan_out=7", "read.separator=;"]).graph.fan_out == 7


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
        ("graph.fan_out=0", "graph.fan_out = 0 does not fit"),
        ("graph.fan_out=many", "graph.fan_out = 'many' does not fit"),
        ("graph.damping=1", "graph.damping"),
        ("read.format=xml", "read.format = 'xml' does not fit"),
        ("split.valid=1.5", "split.valid"),
        ("walk.hops", "not of the form name=value"),
    ],
)
def test_bad_override_says_what_is_wrong(override: str, message: str):
    with pytest.raises(SettingsError) as error:
        load_settings(overrides=[override])
    assert message in str(error.value)


def test_settings_do_not_change():
    with pytest.raises(ValidationError):
        Settings().graph.fan_out = 3


def test_changed_is_validated():
    assert changed(Settings(), {"walk.hops": 1}).walk.hops == 1
    with pytest.raises(SettingsError, match=r"walk\.hops"):
        changed(Settings(), {"walk.hops": 0})


def test_preset_from_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[walk]\nhops = 1\n[graph]\n")
    assert load_settings(path).walk.hops == 1
    assert load_settings(str(path)).walk.hops == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [("[walk\n", "not valid TOML"), ("[walk]\nhop = 1\n", "Did you mean 'walk.hops'"), (None, "cannot be read")],
)
def test_bad_preset_file(tmp_path, content: str | None, message: str):
    path = tmp_path / "mine.toml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SettingsError) as error:
        load_settings(path)
    assert message in str(error.value)


def test_unknown_preset():
    with pytest.raises(SettingsError, match="Did you mean 'umls'"):
        load_settings("umsl")
