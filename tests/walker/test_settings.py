"""Settings of a walker: training on dev facts, the weight of the blend, and settings that suit a graph."""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopwalk import api
from hopwalk.config.loading import load_settings, suited_settings
from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Triples
from hopwalk.errors import DataError
from hopwalk.learning.run import Run
from hopwalk.walker import runs
from hopwalk.walker.training import WalkerLearner
from tests.support.helpers import FAMILY, dataset_of
from tests.support.stopping import Recorder, watching
from tests.support.villages import ALONE, VILLAGE, settings_of


def test_runs_older_than_reranking_are_not_reranked(trained_walker: Run, tmp_path: Path):
    shutil.copytree(trained_walker.path, tmp_path / "old")
    file = tmp_path / "old" / "settings.toml"
    file.write_text(re.sub(r"rerank_weight = .*\n", "", file.read_text()))
    old = Run.open(tmp_path / "old")
    assert (trained_walker.settings.walker.rerank_weight, old.settings.walker.rerank_weight) == (2, 0)
    assert (api.load(trained_walker.path).decoder.own_ranking, api.load(old.path).decoder.own_ranking) == ("reranked", "policy")
    row = "| epochs are selected by | that probability times the scorer's probability of the entity to the power 2 |"
    assert row in (trained_walker.path / "card.md").read_text()


def test_dev_facts_can_be_trained_on(tmp_path: Path):
    settings = settings_of({"walker.train_on_valid": True, "walker.epochs": 2})
    recorder = Recorder()
    run = api.train(VILLAGE, settings, out=tmp_path / "run", make_callbacks=watching("walker", recorder))
    environment, graph = api.load(run.path).decoder.environment, api.graph_of(VILLAGE)
    assert len(environment.graph.tails) == len(graph.tails) + 2 * len(VILLAGE.valid)
    assert environment.known.contains(VILLAGE.valid.heads, VILLAGE.valid.relations, VILLAGE.valid.tails).all()
    assert len(recorder.batches) == 2 * -(-(len(VILLAGE.train) + len(VILLAGE.valid)) // 64)
    assert "valid_mrr" not in run.history[0]
    assert (run.about["best_epoch"], run.about["valid_mrr"]) == (2, None)
    assert run.dataset.fingerprint == VILLAGE.fingerprint
    assert api.evaluate(run.path)["policy"].tails.mrr > 0


def test_the_blend_is_not_chosen_on_dev_facts_that_were_trained_on(tmp_path: Path):
    """Known answers are blocked on the last hop, so on dev paths would seem useless."""
    settings = settings_of({"walker.train_on_valid": True, "walker.epochs": 2})
    run = api.train(VILLAGE, settings, out=tmp_path / "run")
    assert run.about["blend_weight"] > 0
    assert "chosen on dev" not in (run.path / "card.md").read_text()
    with pytest.raises(DataError, match="was trained on the dev set"):
        api.evaluate(run.path, "valid")


def test_the_weight_of_the_blend_can_be_set(tmp_path: Path):
    values = {"walker.train_on_valid": True, "walker.epochs": 1, "walker.blend_weight": 0.3}
    run = api.train(VILLAGE, settings_of(values), out=tmp_path / "run")
    assert run.about["blend_weight"] == 0.3 and "0.3, as set" in (run.path / "card.md").read_text()
    alone = api.train(VILLAGE, settings_of(ALONE | {"walker.epochs": 1, "walker.blend_weight": 0.3}), out=tmp_path / "alone")
    assert alone.about["blend_weight"] is None


@pytest.mark.parametrize("trained_on_dev", [False, True])
def test_held_out_logits_are_those_of_facts_that_the_scorer_was_not_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained_on_dev: bool
):
    """Those of dev, also if the walker is trained on them; none if the scorer was trained on them too."""
    counts: list[int] = []

    class Recording(WalkerLearner):
        def __init__(self, *given: Any, new_to_scorer: Triples, **more: Any) -> None:
            super().__init__(*given, new_to_scorer=new_to_scorer, **more)
            counts.append(len(new_to_scorer))

    monkeypatch.setattr(runs, "WalkerLearner", Recording)
    values = {"walker.train_on_valid": True, "walker.epochs": 1, "scorer.train_on_valid": trained_on_dev}
    api.train(VILLAGE, settings_of(values), out=tmp_path / "run")
    assert counts == [0 if trained_on_dev else len(VILLAGE.valid)]


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
