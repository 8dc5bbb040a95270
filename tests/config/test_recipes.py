"""Recipes of scorers and walkers."""

from pathlib import Path

import pytest

from hopwalk.config.loading import load_settings
from hopwalk.data import catalog
from hopwalk.errors import SettingsError
from hopwalk.scorers.models import MODELS


@pytest.mark.parametrize("data", catalog.entries())
@pytest.mark.parametrize("model", MODELS)
def test_the_paper_recipe_is_the_same_for_all_models(data: str, model: str):
    scorer = load_settings(data, overrides=[f"scorer.model={model}", "scorer.recipe=paper"]).scorer
    assert (scorer.loss, scorer.label_smoothing, scorer.optimizer) == ("binary", 0.1, "adam")
    assert (scorer.learning_rate, scorer.batch_size, scorer.dimension, scorer.n3) == (0.003, 512, 200, 0.0)
    assert (scorer.num_sampled_tails, scorer.relation_weight, scorer.initial_scale) == (0, 0.0, 0.0)
    if model == "conve":
        assert (scorer.embedding_height, scorer.num_filters, scorer.kernel_size) == (10, 32, 3)
        assert (scorer.input_dropout, scorer.feature_dropout, scorer.hidden_dropout) == (0.3, 0.2, 0.3)


@pytest.mark.parametrize("data", catalog.entries())
@pytest.mark.parametrize("model", MODELS)
def test_the_modern_recipe_of_scorers(data: str, model: str):
    scorer = load_settings(data, overrides=[f"scorer.model={model}"]).scorer
    assert (scorer.recipe, scorer.loss, scorer.optimizer) == ("modern", "softmax", "adam" if model == "conve" else "adagrad")


def test_a_preset_and_overrides_win_over_the_recipe(tmp_path: Path):
    preset = tmp_path / "mine.toml"
    preset.write_text("[scorer]\nrecipe = 'paper'\nbatch_size = 7\n")
    scorer = load_settings(preset, overrides=["scorer.optimizer=adagrad"]).scorer
    assert (scorer.recipe, scorer.batch_size, scorer.optimizer, scorer.loss) == ("paper", 7, "adagrad", "binary")


def test_a_recipe_of_one_model_is_not_that_of_another():
    scorers = {model: load_settings("kinship", overrides=[f"scorer.model={model}"]).scorer for model in MODELS}
    assert scorers["complex"].relation_weight > 0
    assert scorers["conve"].relation_weight == 0


@pytest.mark.parametrize("override", ["scorer.recipe=old", "scorer.recipe=5", "scorer.model=5", "scorer=5"])
def test_bad_recipes(override: str):
    with pytest.raises(SettingsError):
        load_settings(overrides=[override])


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
    """Settings of the paper's and of MINERVA's walkers that are the same for every data set."""
    paper = load_settings(data, overrides=["walker.recipe=paper"]).walker
    assert (paper.estimator, paper.rollouts, paper.reward_shaping) == ("sampled", 20, True)
    assert (paper.dimension, paper.history_dimension, paper.history_layers, paper.baseline) == (200, 200, 3, "none")
    minerva = load_settings(data, overrides=["walker.recipe=minerva"]).walker
    assert (minerva.reward_shaping, minerva.action_dropout, minerva.baseline) == (False, 0.0, "average")
    modern = load_settings(data).walker
    assert (modern.recipe, modern.estimator, modern.reward_shaping) == ("modern", "likelihood", True)
