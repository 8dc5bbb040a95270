"""Walkers in run folders: a rule is learnt, a seed decides everything, and what is in a folder is what it says."""

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hopwalk import api
from hopwalk.config.settings import changed
from hopwalk.config.loading import load_settings
from hopwalk.errors import DataError, HopwalkError
from hopwalk.learning.evaluation import Evaluation
from hopwalk.learning.run import Run
from hopwalk.walker import runs
from hopwalk.walker.decoding import WEIGHTS, blend_name
from hopwalk.walker.environment import Queries
from tests.support.helpers import FAMILY, dataset_of
from tests.support.stopping import Recorder, results_of
from tests.support.villages import ALONE, VILLAGE, settings_of


def numbers_of(found: Mapping[str, Evaluation]) -> dict[str, dict[str, Any]]:
    """Evaluations as they are written: what has no value is None, which is equal to itself."""
    return {name: evaluation.to_dict() for name, evaluation in found.items()}


@pytest.fixture(scope="module", params=["sum", "sampled"])
def taught(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run that had no scorer, by either gradient."""
    learnt = {"walker.estimator": request.param, "walker.rollouts": 10, "walker.epochs": 12, "walker.hidden_dropout": 0.0}
    return api.train(VILLAGE, settings_of(ALONE | learnt), out=tmp_path_factory.mktemp(request.param) / "run")


# Learning


def test_a_rule_is_learnt(taught: Run):
    untrained = runs.build_environment(VILLAGE, taught.settings)
    untrained.policy.eval()
    before = runs.evaluate_walker(replace(api.load(taught.path), walker=untrained), "test")
    assert before["paths"].tails.mrr < 0.5
    assert api.evaluate(taught.path).tails.mrr > 0.9
    assert api.evaluate(taught.path, "valid").tails.mrr > 0.9
    rewards = [record["reward"] for record in taught.history]
    assert rewards[-1] > 1.5 * rewards[0]


def test_the_best_path_is_the_rule(taught: Run):
    walker, asked = api.load(taught.path), VILLAGE.test
    found = walker.decoder.reached(Queries(*(torch.tensor(ids.tolist()) for ids in (asked.heads, asked.relations))))
    rule = [VILLAGE.relations.id("mother"), VILLAGE.relations.id("brother")]
    num_explained = 0
    for row, answer in enumerate(asked.tails.tolist()):
        start, end = found.offsets[row : row + 2].tolist()
        place = start + found.entities[start:end].tolist().index(answer)
        path = found.paths[found.path_offsets[place]].tolist()
        assert path[-1] == answer
        num_explained += path[::2] == rule
    assert num_explained >= 0.9 * len(asked)


def test_a_walker_alone_has_no_scorer(taught: Run):
    assert not (taught.path / "scorer").exists()
    walker = api.load(taught.path)
    assert (walker.scorer_logits, walker.blend_weight, taught.about["blend_weight"]) == (None, None, None)
    assert [*api.evaluate_walker(taught.path)] == ["paths"]
    card = (taught.path / "card.md").read_text()
    assert "| scorer | none |" in card
    assert "the paper's: the scorer has no part in the walk" in card
    assert "1 for the answer, else 0" in card
    assert "blend" not in card


@pytest.mark.parametrize("values", [{}, ALONE, {"walker.estimator": "sampled"}], ids=["guided", "alone", "sampled"])
def test_divergence(tmp_path: Path, trained_walker: Run, values: dict[str, Any]):
    settings = settings_of(values | {"walker.learning_rate": 1e30})
    with pytest.raises(HopwalkError, match=r"diverged: set a smaller walker\.learning_rate, or walker\.gradient_clip"):
        api.train(VILLAGE, settings, out=tmp_path / "run", scorer=trained_walker.path / "scorer")


# Seeds

LARGE = {"walker.rollouts": 20, "walker.batch_size": 256, "walker.epochs": 1}  # so that threads share the work


@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_seed_decides_everything(tmp_path: Path, num_threads: int):
    before, results = torch.get_num_threads(), []
    try:
        torch.set_num_threads(num_threads)
        for number, seed in enumerate((5, 5, 6)):
            torch.manual_seed(number)  # randomness of the process must not matter
            settings = settings_of(LARGE | {"walker.seed": seed, "walker.history_layers": 2})
            results.append(results_of(api.train(VILLAGE, settings, out=tmp_path / str(number))))
    finally:
        torch.set_num_threads(before)
    assert results[0] == results[1]
    (weights, history, _), (other_weights, other_history, _) = results[0][0], results[2][0]
    assert weights != other_weights
    assert all(history[0][name] != other_history[0][name] for name in ("loss", "entropy", "reward"))
    assert results[0][1] == results[2][1]  # the scorer has a seed of its own


def test_epochs_differ_in_their_random_numbers(tmp_path: Path):
    """The numbers of a walker that cannot move change only through the order of questions, dropout and the walks drawn."""
    settings = settings_of(ALONE | {"walker.learning_rate": 1e-30})
    history = api.train(VILLAGE, settings, out=tmp_path / "run").history
    assert len({record["loss"] for record in history}) == 4
    assert len({record["valid_mrr"] for record in history}) == 1


# What a run holds


def test_a_run_folder(trained_walker: Run):
    own = {"card.md", "dataset.safetensors", "history.jsonl", "run.json", "settings.toml", "weights.safetensors"}
    assert own | {"scorer"} <= {path.name for path in trained_walker.path.iterdir()}
    assert own <= {path.name for path in (trained_walker.path / "scorer").iterdir()}
    assert not [*trained_walker.path.rglob("checkpoint*"), *trained_walker.path.rglob(".*")]  # nothing half written or left over
    about = trained_walker.about
    assert (about["kind"], about["status"], about["epochs"]) == ("walker", "finished", 4)
    assert load_settings(trained_walker.path / "settings.toml") == settings_of()
    card = (trained_walker.path / "card.md").read_text()
    assert "guided: the scorer's opinion of an entity counts on the last hop (weight 0.3 at first, then learnt)" in card
    assert "shaped by the scorer" in card
    assert "complex, in the folder `scorer`" in card
    assert f"| weight of paths in the blend | {about['blend_weight']:g}, chosen on dev |" in card
    assert f"{100 * about['valid_mrr']:.2f}" in card


def test_history_has_what_the_figures_of_the_paper_need(trained_walker: Run):
    assert [record["epoch"] for record in trained_walker.history] == [1, 2, 3, 4]
    for record in trained_walker.history:
        shares = [record[name] for name in ("reward", "hits", "false_negative_hits", "valid_mrr", "valid_unreached")]
        assert all(0 <= share <= 1 for share in shares)
        assert record["reward"] > record["hits"] > record["false_negative_hits"] > 0  # other ends are rewarded a little
        assert record["entropy"] > 0
        assert record["guidance"] != 0.3  # learnt
        assert record["valid_num_queries"] == len(VILLAGE.valid)
    # No more paths than walks: 5 for each question in each epoch.
    assert 0 < trained_walker.history[0]["unique_paths"] <= 1.02 * 5 * len(VILLAGE.train)


def test_a_watcher_is_told_of_both_trainings(tmp_path: Path):
    told: dict[str, tuple[int, Recorder]] = {}

    def make(name: str, num_epochs: int) -> list[Recorder]:
        told[name] = num_epochs, Recorder()
        return [told[name][1]]

    run = api.train(VILLAGE, settings_of({"walker.epochs": 2}), out=tmp_path / "run", make_callbacks=make)
    assert {name: num_epochs for name, (num_epochs, _) in told.items()} == {"scorer": 4, "walker": 2}
    assert told["walker"][1].records == run.history
    num_batches = -(-len(VILLAGE.train) // 64)
    assert told["walker"][1].batches == [(epoch, batch + 1) for epoch in (1, 2) for batch in range(num_batches)]


def test_a_folder_can_be_copied(copied: Path, trained_walker: Run):
    for path in copied.rglob("*.*"):
        if path.suffix in (".json", ".toml", ".md", ".jsonl"):
            assert str(trained_walker.path.parent) not in path.read_text()  # of this machine
    moved = copied.rename(copied.with_name("elsewhere"))
    assert numbers_of(api.evaluate_walker(moved)) == numbers_of(api.evaluate_walker(trained_walker.path))
    heads, relations = VILLAGE.test.heads, VILLAGE.test.relations
    here, there = (api.load(path).decoder.path_scores(heads, relations) for path in (trained_walker.path, moved))
    assert np.array_equal(here, there)


def test_what_evaluate_writes(copied: Path, trained_walker: Run):
    found = api.evaluate_walker(copied)
    written = json.loads((copied / "evaluation-test.json").read_text())
    assert written["blend_weight"] == trained_walker.about["blend_weight"]
    assert {*written} == {"paths", "probability", "scorer", "blend", "blend_weight"}
    for name, numbers in numbers_of(found).items():
        assert written[name] == json.loads(json.dumps(numbers))
        assert (numbers["tails"]["num_queries"], numbers["heads"]["num_queries"]) == (len(VILLAGE.test), 0)
    assert api.evaluate(copied).to_dict() == found["paths"].to_dict()
    assert json.loads((copied / "evaluation-test.json").read_text()) == written
    both = api.evaluate_walker(copied, directions="both")["paths"]
    assert (both.tails, both.heads.num_queries) == (found["paths"].tails, len(VILLAGE.test))
    api.evaluate(copied, "valid", complete_filter=True)
    assert (copied / "evaluation-valid-complete.json").exists()


def test_the_scorer_alone_ranks_as_its_own_run_does(trained_walker: Run):
    of_walker, of_scorer = api.evaluate_walker(trained_walker.path)["scorer"], api.evaluate(trained_walker.path / "scorer")
    assert of_walker.tails.mrr == pytest.approx(of_scorer.tails.mrr, abs=1e-4)


def test_the_blend_is_the_best_on_dev(trained_walker: Run):
    about, found = trained_walker.about, api.evaluate_walker(trained_walker.path, "valid")
    by_weight = {weight: about["valid_mrr_by"][blend_name(weight)] for weight in WEIGHTS}
    assert by_weight[about["blend_weight"]] == max(by_weight.values()) == found["blend"].tails.mrr
    assert about["valid_mrr_by"]["paths"] == about["valid_mrr"] == found["paths"].tails.mrr
    assert about["valid_mrr_by"]["scorer"] == found["scorer"].tails.mrr == by_weight[0]


def test_paths_are_ranked_by_their_probability_and_the_reward_of_their_ends(trained_walker: Run):
    walker, weight = api.load(trained_walker.path), 2.0
    assert walker.settings.walker.rerank_weight == weight
    asked = VILLAGE.test.heads, VILLAGE.test.relations
    scores = walker.decoder.scores(*asked, [])
    assert [*scores] == walker.decoder.names([]) == ["paths", "probability", "scorer"]
    with np.errstate(divide="ignore"):
        rewards = np.log(1 / (1 + np.exp(-scores["scorer"].astype(np.float64))))
    is_reached = scores["probability"] > -np.inf
    assert 0 < is_reached.mean() < 1
    expected = scores["probability"] + weight * rewards
    np.testing.assert_allclose(scores["paths"][is_reached], expected[is_reached], rtol=1e-4, atol=1e-4)
    assert (scores["paths"][~is_reached] == -np.inf).all()
    np.testing.assert_array_equal(walker.decoder.path_scores(*asked), scores["paths"])

    paper = replace(walker, settings=changed(walker.settings, {"walker.rerank_weight": 0.0}))
    assert paper.decoder.names([]) == ["paths", "scorer"]
    np.testing.assert_array_equal(paper.decoder.path_scores(*asked), scores["probability"])
    by_paper = runs.evaluate_walker(paper, "test")
    assert numbers_of(by_paper)["paths"] == numbers_of(runs.evaluate_walker(walker, "test"))["probability"]


def test_a_blend_without_weight_is_the_scorer(trained_walker: Run):
    walker = api.load(trained_walker.path)
    none, much = (numbers_of(runs.evaluate_walker(replace(walker, blend_weight=weight), "test")) for weight in (0.0, 1e4))
    assert none["blend"] == none["scorer"] == much["scorer"] != much["blend"]
    assert none["paths"] == much["paths"] != none["blend"]


def test_answers_that_no_path_reaches(tmp_path: Path):
    """Nobody knows the hermit's neighbour but the hermit: by paths the answer counts 0, and the scorer ranks it all the same."""
    family = dataset_of([*FAMILY, ("hermit", "knows", "crow")], FAMILY[4:5], [("ann", "knows", "crow"), ("eve", "knows", "bob")])
    run = api.train(family, settings_of({"walker.epochs": 1}), out=tmp_path / "run")
    found = runs.evaluate_walker(replace(api.load(run.path), blend_weight=0.0), "test")
    (crow,) = (row for row, tail in enumerate(family.test.tails.tolist()) if family.entities[tail] == "crow")
    alone = replace(family, test=family.test[crow : crow + 1])
    only = runs.evaluate_walker(replace(api.load(run.path), dataset=alone, blend_weight=0.0), "test")
    assert (only["paths"].tails.mrr, only["paths"].tails.unreached) == (0, 1)
    assert only["blend"].tails == only["scorer"].tails
    assert only["scorer"].tails.mrr > 0
    assert found["paths"].tails.unreached == 0.5
    assert found["paths"].tails.mrr > 0


def test_without_dev_queries_the_last_epoch_counts(tmp_path: Path):
    run = api.train(dataset_of(FAMILY), settings_of({"walker.patience": 1}), out=tmp_path / "run")
    about = run.about
    assert (about["status"], about["best_epoch"], about["valid_mrr"], about["blend_weight"]) == ("finished", 4, None, 1.0)
    assert "no dev questions" in (run.path / "card.md").read_text()
    with pytest.raises(DataError, match="has no test questions"):
        api.evaluate(run.path)


def test_a_part_of_dev_can_be_asked(tmp_path: Path):
    run = api.train(VILLAGE, settings_of(ALONE | {"walker.dev_queries": 3, "walker.epochs": 1}), out=tmp_path / "run")
    assert run.history[0]["valid_num_queries"] == 3
    assert api.evaluate(run.path, "valid").tails.num_queries == len(VILLAGE.valid)


def test_tensorboard_has_the_history(tmp_path: Path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = api.train(VILLAGE, settings_of(ALONE | {"walker.epochs": 3}), out=tmp_path / "run", tensorboard=True)
    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    for name in ("reward", "entropy", "hits", "false_negative_hits", "unique_paths", "valid_mrr"):
        written = [(event.step, event.value) for event in events.Scalars(name)]
        assert [step for step, _ in written] == [1, 2, 3]
        np.testing.assert_allclose([value for _, value in written], [record[name] for record in run.history], rtol=1e-6)


def test_tensorboard_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    with pytest.raises(HopwalkError, match="--tensorboard needs the package tensorboard, which is not installed"):
        api.train(VILLAGE, settings_of(ALONE), out=tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()


def test_no_training_queries_are_told_before_a_scorer_is_trained(tmp_path: Path):
    watched = Recorder()
    with pytest.raises(DataError, match="has no training questions"):
        api.train(
            replace(VILLAGE, train=VILLAGE.train[:0]), settings_of(), out=tmp_path / "run", make_callbacks=lambda *_: [watched]
        )
    assert watched.batches == []
    assert not (tmp_path / "run").exists()


# A scorer that is given


def test_the_card_names_the_scorer_that_was_given(tmp_path: Path):
    scorer = api.train_scorer(VILLAGE, settings_of({"scorer.model": "distmult"}), out=tmp_path / "scorer")
    run = api.train(VILLAGE, settings_of({"walker.epochs": 1}), out=tmp_path / "run", scorer=scorer.path)
    assert "distmult, in the folder `scorer`" in (run.path / "card.md").read_text()


def test_an_ensemble_can_be_given(tmp_path: Path, trained_walker: Run):
    members = [
        trained_walker.path / "scorer",
        api.train_scorer(VILLAGE, settings_of({"scorer.seed": 1}), out=tmp_path / "1").path,
    ]
    both = api.combine_scorers(members, out=tmp_path / "both")
    run = api.train(VILLAGE, settings_of({"walker.epochs": 1}), out=tmp_path / "run", scorer=both.path)
    shutil.rmtree(tmp_path / "both")
    assert api.evaluate_walker(run.path)["scorer"].tails.num_queries == len(VILLAGE.test)
