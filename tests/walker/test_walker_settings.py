"""Settings of a walker: facts of dev, what suits a graph, and batches that fit into memory."""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hopwalk import api
from hopwalk.config.loading import load_settings, suited_settings
from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Triples
from hopwalk.errors import DataError
from hopwalk.learning.optimizers import Optimizer
from hopwalk.learning.run import Run
from hopwalk.walker import rollout, runs
from hopwalk.walker import training as walker_training
from hopwalk.walker.environment import Queries
from tests.support.helpers import FAMILY, dataset_of
from tests.support.stopping import Recorder, watching
from tests.support.villages import ALONE, VILLAGE, settings_of, village_of

# Settings


def test_runs_that_are_older_than_a_setting_go_on_without_it(trained_walker: Run, tmp_path: Path):
    shutil.copytree(trained_walker.path, tmp_path / "old")
    file = tmp_path / "old" / "settings.toml"
    file.write_text(re.sub(r"rerank_weight = .*\n", "", file.read_text()))
    old = Run.open(tmp_path / "old")
    assert (trained_walker.settings.walker.rerank_weight, old.settings.walker.rerank_weight) == (2, 0)
    told = "| paths are ranked by | probability, and the scorer's of their end to the power 2 |"
    assert told in (trained_walker.path / "card.md").read_text()


def test_dev_facts_can_be_learnt(tmp_path: Path):
    settings = settings_of({"walker.train_on_valid": True, "walker.epochs": 2})
    recorder = Recorder()
    run = api.train(VILLAGE, settings, out=tmp_path / "run", make_callbacks=watching("walker", recorder))
    walker, graph = api.load(run.path).walker, api.graph_of(VILLAGE)
    assert len(walker.graph.tails) == len(graph.tails) + 2 * len(VILLAGE.valid)
    assert walker.known.contains(VILLAGE.valid.heads, VILLAGE.valid.relations, VILLAGE.valid.tails).all()
    assert len(recorder.batches) == 2 * -(-(len(VILLAGE.train) + len(VILLAGE.valid)) // 64)
    assert "valid_mrr" not in run.history[0]
    assert (run.about["best_epoch"], run.about["valid_mrr"]) == (2, None)
    assert run.dataset.fingerprint == VILLAGE.fingerprint
    assert api.evaluate(run.path).tails.mrr > 0


def test_dev_facts_that_were_learnt_do_not_choose_the_blend(tmp_path: Path):
    """They cannot be reached then, as all known answers: dev would always say that paths are good for nothing."""
    settings = settings_of({"walker.train_on_valid": True, "walker.epochs": 2})
    run = api.train(VILLAGE, settings, out=tmp_path / "run")
    assert run.about["blend_weight"] > 0
    assert "chosen on dev" not in (run.path / "card.md").read_text()
    with pytest.raises(DataError, match="learnt the dev facts"):
        api.evaluate(run.path, "valid")


def test_the_blend_can_be_said(tmp_path: Path):
    said = {"walker.train_on_valid": True, "walker.epochs": 1, "walker.blend_weight": 0.3}
    run = api.train(VILLAGE, settings_of(said), out=tmp_path / "run")
    assert run.about["blend_weight"] == 0.3 and "0.3, as set" in (run.path / "card.md").read_text()
    alone = api.train(VILLAGE, settings_of(ALONE | {"walker.epochs": 1, "walker.blend_weight": 0.3}), out=tmp_path / "alone")
    assert alone.about["blend_weight"] is None


@pytest.mark.parametrize("trained_on_dev", [False, True])
def test_opinions_of_dev_answers_stay_honest_though_the_walker_learns_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained_on_dev: bool
):
    """Those of a scorer that has learnt dev are not."""
    counts: list[int] = []

    def count(_: object, queries: Triples) -> torch.Tensor:
        counts.append(len(queries))
        return torch.empty(0)

    monkeypatch.setattr(walker_training, "_opinions_of_answers", count)
    said = {"walker.train_on_valid": True, "walker.epochs": 1, "scorer.train_on_valid": trained_on_dev}
    api.train(VILLAGE, settings_of(said), out=tmp_path / "run")
    assert counts == [0 if trained_on_dev else len(VILLAGE.valid)]


def complete_graph_of(num_entities: int, num_relations: int) -> Dataset:
    names = [f"{number:02}" for number in range(num_entities)]
    links = [f"r{number}" for number in range(num_relations)]
    return dataset_of((one, link, other) for one in names for other in names for link in links if one != other)


def test_settings_suit_the_density_of_a_graph_of_ones_own():
    sparse, dense, densest = dataset_of(FAMILY), complete_graph_of(16, 1), complete_graph_of(16, 3)
    chosen = [api.settings_for("mine.csv", dataset=dataset) for dataset in (sparse, dense, densest)]
    assert [settings.walker.action_dropout for settings in chosen] == [0.1, 0.5, 0.9]
    assert [settings.walk.hops for settings in chosen] == [3, 2, 2]
    assert [settings.scorer.num_sampled_tails for settings in chosen] == [0, 0, 0]
    assert suited_settings(np.full(30_000, 5))["scorer.num_sampled_tails"] == 4096
    assert suited_settings(np.full(30_000, 50))["walk.hops"] == 3


def test_what_is_said_wins_over_what_suits(tmp_path: Path):
    densest, preset = complete_graph_of(16, 3), tmp_path / "mine.toml"
    said = api.settings_for("mine.csv", dataset=densest, overrides=["walker.action_dropout=0.2", "walk.hops=3"])
    assert (said.walker.action_dropout, said.walk.hops, said.scorer.n3) == (0.2, 3, 0.005)
    preset.write_text("[walker]\naction_dropout = 0.3\n")
    assert api.settings_for("mine.csv", dataset=densest, preset=preset).walker.action_dropout == 0.3
    for data in ("umls", "kinship"):  # chosen on dev, in the recipe
        assert api.settings_for(data, dataset=densest) == api.settings_for(data) == load_settings(data)


def test_published_recipes_stay_as_they_are_on_a_graph_of_ones_own():
    densest = complete_graph_of(16, 3)
    minerva = api.settings_for("mine.csv", dataset=densest, overrides=["walker.recipe=minerva"]).walker
    assert minerva.action_dropout == 0
    paper = api.settings_for("mine.csv", dataset=densest, overrides=["walker.recipe=paper", "scorer.recipe=paper"])
    assert (paper.scorer.n3, paper.scorer.batch_size, paper.scorer.loss) == (0, 512, "binary")
    assert paper.walker.action_dropout == 0.9  # the recipe says nothing, the paper's appendix does


# Memory and time


def test_a_batch_in_parts_has_the_same_gradient(monkeypatch: pytest.MonkeyPatch):
    """One hop is summed over, and its entropy is exact: nothing random is left."""
    monkeypatch.setattr(Optimizer, "step", lambda _: None)  # gradients stay to be looked at
    nothing_random = {"walk.hops": 1, "walker.action_dropout": 0.0, "walker.embedding_dropout": 0.0, "walker.hidden_dropout": 0.0}
    gradients, losses, sizes = [], [], []
    for memory in (4096, 64):
        more = {"walker.rollouts": 150, "walker.batch_size": 4096, "walker.entropy": 0.5, "walker.memory_mb": memory}
        settings = settings_of(ALONE | nothing_random | more)
        learner = walker_training.WalkerLearner(runs.build_environment(VILLAGE, settings), VILLAGE, settings, None)
        losses.append(learner.learn(1, torch.Generator().manual_seed(0), lambda *_: None)["loss"])
        gradients.append({name: value.grad for name, value in learner.model.named_parameters() if value.grad is not None})
        sizes.append(api.forecast(VILLAGE, settings).queries_at_once)
    assert sizes[1] < len(VILLAGE.train) <= sizes[0]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert gradients[0].keys() == gradients[1].keys() > {"relations", "entities"}
    for name, gradient in gradients[0].items():
        assert float((gradient - gradients[1][name]).norm()) <= 1e-3 * float(gradient.norm()), name


def test_training_in_parts_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sizes: list[int] = []

    def roll_out(walker: Any, queries: Queries, **more: Any) -> Any:
        sizes.append(len(queries))
        return rollout.roll_out(walker, queries, **more)

    monkeypatch.setattr(walker_training, "roll_out", roll_out)
    few_steps = {"walker.batch_size": 256, "walker.rollouts": 80, "walker.learning_rate": 0.05, "walker.epochs": 8}
    settings = settings_of(ALONE | few_steps | {"walker.memory_mb": 64})
    run = api.train(VILLAGE, settings, out=tmp_path / "run")
    at_once = api.forecast(VILLAGE, settings).queries_at_once
    assert max(sizes) <= at_once < 128
    assert sum(sizes) == 8 * len(VILLAGE.train)
    assert api.evaluate(run.path).tails.mrr > 0.8


def test_the_forecast_shrinks_with_what_is_asked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hopwalk.walker.forecast.product_rate", lambda: 1e9)  # of a machine that is always the same
    usual: dict[str, Any] = {"walker.rollouts": 100, "walker.batch_size": 512}
    most = api.forecast(VILLAGE, settings_of(usual))
    assert most.queries_at_once == 512
    less_memory = api.forecast(VILLAGE, settings_of(usual | {"walker.memory_mb": 64}))
    assert less_memory.queries_at_once < 512
    assert less_memory.memory_bytes < min(most.memory_bytes, 80 * 2**20)
    assert less_memory.seconds_of_epoch == most.seconds_of_epoch
    for changes in ({"walker.rollouts": 50}, {"walk.hops": 1}, {"walker.dimension": 6}, {"walker.history_dimension": 6}):
        less = api.forecast(VILLAGE, settings_of(usual | changes))
        assert less.memory_bytes < most.memory_bytes
        assert less.seconds_of_epoch < most.seconds_of_epoch
    smaller = api.forecast(village_of(8), settings_of(usual))
    assert smaller.seconds_of_epoch < 0.7 * most.seconds_of_epoch
    assert api.forecast(VILLAGE, settings_of(usual | ALONE)).memory_bytes < most.memory_bytes  # no scores of all entities
