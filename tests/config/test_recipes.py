"""Recipes of scorers and walkers."""

from pathlib import Path

import pytest

from hopwalk.config.loading import load_settings
from hopwalk.data import catalog
from hopwalk.errors import SettingsError
from hopwalk.scorers.models import MODELS


@pytest.mark.parametrize("data", catalog.entries())
@pytest.mark.parametrize("model", MODELS)
def test_the_paper_recipe_of_scorers_is_that_of_its_release(data: str, model: str):
    scorer = load_settings(data, overrides=[f"scorer.model={model}", "scorer.recipe=paper"]).scorer
    assert (scorer.loss, scorer.label_smoothing, scorer.smoothing_sum, scorer.optimizer) == ("binary", 0.1, 1.0, "adam")
    assert (scorer.learning_rate, scorer.dimension, scorer.n3) == (0.003, 200, 0.0)
    assert (scorer.relation_weight, scorer.initial_scale) == (0.0, 0.0)
    if model == "conve":
        assert (scorer.embedding_height, scorer.num_filters, scorer.kernel_size) == (10, 32, 3)
        assert (scorer.conve_layers, scorer.feature_dropout, scorer.hidden_dropout) == ("released", 0.2, 0.3)
        assert scorer.input_dropout == scorer.tail_dropout == (0.2 if data == "kinship" else 0.3)
        assert scorer.batch_size == (1024 if data == "wn18rr" else 512)
        assert scorer.gradient_clip == (5.0 if data in ("wn18rr", "nell-995") else 0.0)


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


@pytest.mark.parametrize("data", catalog.entries())
def test_a_recipe_overrides_the_preset_of_a_data_set(data: str):
    """MINERVA has a fan-out and a beam of its own on every set; the hops are those of the set."""
    minerva, paper = (load_settings(data, overrides=[f"walker.recipe={recipe}"]) for recipe in ("minerva", "paper"))
    assert (minerva.graph.fan_out, minerva.walk.beam) == (200, 100)
    assert minerva.walk.hops == paper.walk.hops
    assert load_settings(data, overrides=["walker.recipe=minerva", "walk.beam=7"]).walk.beam == 7


@pytest.mark.parametrize("data", ["umls", "kinship", "fb15k-237", "wn18rr", "nell-995"])
def test_recipes_of_walkers(data: str):
    """Settings of the paper's and of MINERVA's walkers that are the same for every data set."""
    paper = load_settings(data, overrides=["walker.recipe=paper"]).walker
    assert (paper.estimator, paper.rollouts, paper.reward_shaping) == ("sampled", 20, True)
    assert (paper.dimension, paper.history_dimension, paper.history_layers, paper.baseline) == (200, 200, 3, "none")
    assert (paper.dropout_masks, paper.mean_window) == ("walk", {"umls": 200, "kinship": 400}.get(data, 0))
    minerva = load_settings(data, overrides=["walker.recipe=minerva"]).walker
    assert (minerva.reward_shaping, minerva.action_dropout, minerva.baseline) == (False, 0.0, "standardised")
    assert (minerva.entropy_decay, minerva.entropy_decay_steps, minerva.uses_entities) == (0.9, 200, data == "wn18rr")
    modern = load_settings(data).walker
    assert (modern.recipe, modern.estimator, modern.reward_shaping) == ("modern", "likelihood", True)
