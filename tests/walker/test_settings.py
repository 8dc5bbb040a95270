"""Settings of a walker: training on dev facts, and settings that suit a graph."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from hopwalk import api
from hopwalk.config.loading import load_settings, suited_settings
from hopwalk.data.dataset import Dataset
from hopwalk.errors import DataError
from hopwalk.learning.calibration import Calibration
from hopwalk.walker.runs import load_decoder
from tests.support.helpers import FAMILY, dataset_of
from tests.support.stopping import Recorder, watching
from tests.support.villages import VILLAGE, settings_of, train_walker


def test_dev_facts_can_be_trained_on(tmp_path: Path):
    settings = settings_of({"walker.train_on_valid": True, "walker.epochs": 2})
    recorder = Recorder()
    run = train_walker(VILLAGE, settings, out=tmp_path / "run", make_callbacks=watching("walker", recorder))
    environment, graph = load_decoder(run).environment, api.graph_of(VILLAGE)
    assert len(environment.graph.tails) == len(graph.tails) + 2 * len(VILLAGE.valid)
    assert environment.known.contains(VILLAGE.valid.heads, VILLAGE.valid.relations, VILLAGE.valid.tails).all()
    assert len(recorder.batches) == 2 * -(-(len(VILLAGE.train) + len(VILLAGE.valid)) // 64)
    assert "valid_mrr" not in run.history[0]
    assert (run.about["best_epoch"], run.about["valid_mrr"]) == (2, None)
    assert run.dataset.fingerprint == VILLAGE.fingerprint
    assert api.evaluate(run.path)["policy"].tails.mrr > 0


def test_nothing_is_calibrated_or_evaluated_on_dev_facts_that_were_trained_on(tmp_path: Path):
    settings = settings_of({"walker.train_on_valid": True, "walker.epochs": 1})
    run = train_walker(VILLAGE, settings, out=tmp_path / "run")
    assert run.about["calibration"] == asdict(Calibration(is_relative=True)) and run.about["reliability"] is None
    with pytest.raises(DataError, match="was trained on the dev set"):
        api.evaluate(run.path, "valid")


def complete_graph_of(num_entities: int, num_relations: int) -> Dataset:
    names = [f"{number:02}" for number in range(num_entities)]
    links = [f"r{number}" for number in range(num_relations)]
    return dataset_of((one, link, other) for one in names for other in names for link in links if one != other)


def test_settings_suit_the_density_of_the_graph():
    sparse, dense, densest = dataset_of(FAMILY), complete_graph_of(16, 1), complete_graph_of(16, 3)
    chosen = [api.settings_for("mine.csv", dataset=dataset) for dataset in (sparse, dense, densest)]
    assert [settings.walker.action_dropout for settings in chosen] == [0.1, 0.5, 0.9]
    assert [settings.walk.hops for settings in chosen] == [3, 2, 2]
    assert [settings.scorer.num_sampled_tails for settings in chosen] == [0, 0, 0]
    assert suited_settings(np.full(30_000, 5))["scorer.num_sampled_tails"] == 4096
    assert suited_settings(np.full(30_000, 50))["walk.hops"] == 3


def test_overrides_and_presets_win_over_suited_settings(tmp_path: Path):
    densest, preset = complete_graph_of(16, 3), tmp_path / "mine.toml"
    overridden = api.settings_for("mine.csv", dataset=densest, overrides=["walker.action_dropout=0.2", "walk.hops=3"])
    assert (overridden.walker.action_dropout, overridden.walk.hops, overridden.scorer.n3) == (0.2, 3, 0.005)
    preset.write_text("[walker]\naction_dropout = 0.3\n")
    assert api.settings_for("mine.csv", dataset=densest, preset=preset).walker.action_dropout == 0.3
    for data in ("umls", "kinship"):  # chosen on dev, in the recipe
        assert api.settings_for(data, dataset=densest) == api.settings_for(data) == load_settings(data)


def test_published_recipes_win_over_suited_settings():
    densest = complete_graph_of(16, 3)
    minerva = api.settings_for("mine.csv", dataset=densest, overrides=["walker.recipe=minerva"]).walker
    assert minerva.action_dropout == 0
    paper = api.settings_for("mine.csv", dataset=densest, overrides=["walker.recipe=paper", "scorer.recipe=paper"])
    assert (paper.scorer.n3, paper.scorer.batch_size, paper.scorer.loss) == (0, 512, "binary")
    assert paper.walker.action_dropout == 0.9  # not in the recipe: the rule of the paper's appendix
