"""Walkers in run folders: a rule is learnt, the seed decides everything, and the folder holds what it should."""

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hopwalk import api
from hopwalk.config.loading import load_settings
from hopwalk.config.migrations import migrated_parameter
from hopwalk.errors import DataError, HopwalkError, MissingPackageError
from hopwalk.learning.calibration import calibrate
from hopwalk.learning.callbacks import TrainingPlan
from hopwalk.learning.evaluation import Evaluation
from hopwalk.learning.run import Run
from hopwalk.walker import runs
from hopwalk.walker.environment import Queries
from tests.support.helpers import FAMILY, dataset_of
from tests.support.stopping import Recorder, results_of
from tests.support.villages import ALONE, VILLAGE, settings_of, train_walker


def numbers_of(found: Mapping[str, Evaluation]) -> dict[str, dict[str, Any]]:
    """Evaluations as they are written to JSON, without NaN, so that they can be compared."""
    return {name: evaluation.to_dict() for name, evaluation in found.items()}


@pytest.fixture(scope="module", params=["likelihood", "sum", "sampled"])
def uncles_walker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run without a scorer, trained with either estimator of the gradient."""
    values = {"walker.estimator": request.param, "walker.rollouts": 10, "walker.epochs": 12, "walker.hidden_dropout": 0.0}
    return train_walker(VILLAGE, settings_of(ALONE | values), out=tmp_path_factory.mktemp(request.param) / "run")


# Learning


def test_a_rule_is_learnt(uncles_walker: Run):
    found = api.evaluate(uncles_walker.path, untrained_control=True)
    assert found["untrained_policy"].tails.mrr < 0.5
    assert found["policy"].tails.mrr > 0.9
    # Filtered with the test facts too: they follow the same rule, so which of both comes first is chance.
    assert api.evaluate(uncles_walker.path, "valid", complete_filter=True)["policy"].tails.mrr > 0.95
    rewards = [record["reward"] for record in uncles_walker.history]
    assert rewards[-1] > 1.5 * rewards[0]


def test_the_best_path_is_the_rule(uncles_walker: Run):
    decoder, triples = runs.load_decoder(uncles_walker), VILLAGE.test
    queries = Queries(*(torch.tensor(ids.tolist()) for ids in (triples.heads, triples.relations)))
    found = decoder.search(queries).reached()
    rule = [VILLAGE.relations.id("mother"), VILLAGE.relations.id("brother")]
    num_explained = 0
    for row, answer in enumerate(triples.tails.tolist()):
        start, end = found.offsets[row : row + 2].tolist()
        place = start + found.entities[start:end].tolist().index(answer)
        path = found.paths[found.path_offsets[place]].tolist()
        assert path[-1] == answer
        num_explained += path[::2] == rule
    assert num_explained >= 0.9 * len(triples)


def test_a_walker_without_a_scorer(uncles_walker: Run):
    assert not (uncles_walker.path / "scorer").exists()
    assert [*api.evaluate(uncles_walker.path)] == ["policy"]
    card = (uncles_walker.path / "card.md").read_text()
    assert "| scorer | none |" in card
    assert "1 at the answer, 0 elsewhere" in card
    assert (
        "| answers are ranked by | the probability of the policy's paths, as in the paper; the scorer has no part in it |" in card
    )


@pytest.mark.parametrize("values", [{}, ALONE, {"walker.estimator": "sampled"}], ids=["shaped", "alone", "sampled"])
def test_training_that_diverges_is_an_error(tmp_path: Path, trained_walker: Run, values: dict[str, Any]):
    settings = settings_of(values)  # a walker as small as this diverges only at a rate beyond what settings allow
    settings = settings.model_copy(update={"walker": settings.walker.model_copy(update={"learning_rate": 1e30})})
    with pytest.raises(
        HopwalkError, match=r"training diverged: .*\. Set a smaller walker\.learning_rate, or walker\.gradient_clip"
    ):
        train_walker(VILLAGE, settings, out=tmp_path / "run", scorer=trained_walker.path / "scorer")


# Seeds

LARGE = {"walker.rollouts": 20, "walker.batch_size": 256, "walker.epochs": 1}  # so that threads share the work


@pytest.mark.parametrize("num_threads", [1, 2])
def test_the_seed_decides_everything(tmp_path: Path, num_threads: int):
    before, results = torch.get_num_threads(), []
    try:
        torch.set_num_threads(num_threads)
        for number, seed in enumerate((5, 5, 6)):
            torch.manual_seed(number)  # randomness of the process must not matter
            settings = settings_of(LARGE | {"walker.seed": seed, "walker.history_layers": 2})
            results.append(results_of(train_walker(VILLAGE, settings, out=tmp_path / str(number))))
    finally:
        torch.set_num_threads(before)
    assert results[0] == results[1]
    (weights, history, _), (other_weights, other_history, _) = results[0][0], results[2][0]
    assert weights != other_weights
    assert all(history[0][name] != other_history[0][name] for name in ("loss", "entropy", "reward"))
    assert results[0][1] == results[2][1]  # the scorer has a seed of its own


def test_epochs_differ_in_their_random_numbers(tmp_path: Path):
    """The losses of a policy that does not change differ only by the order of queries, dropout and sampling."""
    settings = settings_of(ALONE | {"walker.learning_rate": 1e-30})
    history = train_walker(VILLAGE, settings, out=tmp_path / "run").history
    assert len({record["loss"] for record in history}) == 4
    assert len({record["valid_mrr"] for record in history}) == 1


# The run folder


def test_a_run_folder(trained_walker: Run):
    own = {"card.md", "dataset.safetensors", "history.jsonl", "run.json", "settings.toml", "weights.safetensors"}
    assert own | {"scorer"} <= {path.name for path in trained_walker.path.iterdir()}
    assert own <= {path.name for path in (trained_walker.path / "scorer").iterdir()}
    assert not [*trained_walker.path.rglob("checkpoint*"), *trained_walker.path.rglob(".*")]  # nothing half written
    about = trained_walker.about
    assert (about["kind"], about["status"], about["epochs"]) == ("walker", "finished", 4)
    assert load_settings(trained_walker.path / "settings.toml") == settings_of()
    card = (trained_walker.path / "card.md").read_text()
    assert "shaped by the scorer" in card
    assert "complex, in the folder `scorer`" in card
    assert f"{100 * about['valid_mrr']:.2f}" in card


def test_the_history_has_the_values_of_the_papers_figures(trained_walker: Run):
    assert [record["epoch"] for record in trained_walker.history] == [1, 2, 3, 4]
    for record in trained_walker.history:
        shares = [record[name] for name in ("reward", "hits", "false_negative_hits", "valid_mrr", "valid_unreached")]
        assert all(0 <= share <= 1 for share in shares)
        assert record["reward"] > record["hits"] > record["false_negative_hits"] > 0  # other ends are rewarded a little
        assert record["entropy"] > 0
        assert record["valid_num_queries"] == len(VILLAGE.valid)
    # No more paths than walks: so many for each query in each epoch.
    rollouts = trained_walker.settings.walker.rollouts
    assert 0 < trained_walker.history[0]["unique_paths"] <= 1.02 * rollouts * len(VILLAGE.train)


def test_callbacks_are_called_in_both_trainings(tmp_path: Path):
    plans: dict[str, TrainingPlan] = {}
    recorders: dict[str, Recorder] = {}

    def make(plan: TrainingPlan) -> list[Recorder]:
        plans[plan.kind], recorders[plan.kind] = plan, Recorder()
        return [recorders[plan.kind]]

    settings = settings_of({"walker.epochs": 2})
    run = train_walker(VILLAGE, settings, out=tmp_path / "run", make_callbacks=make)
    assert {kind: plan.epochs for kind, plan in plans.items()} == {"scorer": 4, "walker": 2}
    forecast = plans["walker"].forecast
    assert plans["scorer"].forecast is None and forecast is not None
    assert forecast.memory_bytes == api.forecast(VILLAGE, settings).memory_bytes
    assert recorders["walker"].records == run.history
    num_batches = -(-len(VILLAGE.train) // 64)
    assert recorders["walker"].batches == [(epoch, batch + 1) for epoch in (1, 2) for batch in range(num_batches)]


def test_a_folder_can_be_copied(copied: Path, trained_walker: Run):
    for path in copied.rglob("*.*"):
        if path.suffix in (".json", ".toml", ".md", ".jsonl"):
            assert str(trained_walker.path.parent) not in path.read_text()  # of this machine
    moved = copied.rename(copied.with_name("elsewhere"))
    assert numbers_of(api.evaluate(moved)) == numbers_of(api.evaluate(trained_walker.path))
    decoders = [runs.load_decoder(Run.open(path)) for path in (trained_walker.path, moved)]
    original, copy = (decoder.scores(VILLAGE.test.heads, VILLAGE.test.relations) for decoder in decoders)
    assert np.array_equal(original, copy)


def test_evaluate_writes_what_it_gives(copied: Path):
    found = api.evaluate(copied)
    written = json.loads((copied / "evaluation-test.json").read_text())
    assert [*written] == [*found] == ["policy"]
    for name, numbers in numbers_of(found).items():
        assert written[name] == json.loads(json.dumps(numbers))
        assert (numbers["tails"]["num_queries"], numbers["heads"]["num_queries"]) == (len(VILLAGE.test), 0)
    both = api.evaluate(copied, directions="both")["policy"]
    assert (both.tails, both.heads.num_queries) == (found["policy"].tails, len(VILLAGE.test))
    api.evaluate(copied, "valid", complete_filter=True)
    assert (copied / "evaluation-valid-complete.json").exists()


def test_the_untrained_control_of_a_run(copied: Path):
    found = numbers_of(api.evaluate(copied, untrained_control=True))
    assert [*found] == ["policy", "untrained_policy"]
    assert found["untrained_policy"] != found["policy"]
    assert found["policy"] == numbers_of(api.evaluate(copied))["policy"]
    assert [*json.loads((copied / "evaluation-test.json").read_text())] == ["policy"]  # of the last evaluation


def test_probabilities_are_calibrated_on_dev(trained_walker: Run):
    about = trained_walker.about
    calibration, reliability = calibrate(runs.load_decoder(trained_walker).scores, VILLAGE)
    assert about["calibration"] == asdict(calibration) and about["calibration"]["slope"] > 0
    assert reliability is not None and about["reliability"] == json.loads(json.dumps(reliability.to_dict()))


def test_answers_that_no_path_reaches(tmp_path: Path):
    """Only the hermit has a path to the crow: its reciprocal rank is 0."""
    facts, crow = [*FAMILY, ("hermit", "knows", "crow")], ("ann", "knows", "crow")
    both, alone = (dataset_of(facts, FAMILY[4:5], test) for test in ([crow, ("eve", "knows", "bob")], [crow]))
    settings = settings_of({"walker.epochs": 1})
    found, only = (
        api.evaluate(train_walker(data, settings, out=tmp_path / str(number)).path) for number, data in enumerate((both, alone))
    )
    assert (only["policy"].tails.mrr, only["policy"].tails.unreached) == (0, 1)
    assert found["policy"].tails.unreached == 0.5
    assert found["policy"].tails.mrr > 0


def test_without_dev_queries_the_last_epoch_counts(tmp_path: Path):
    run = train_walker(dataset_of(FAMILY), settings_of({"walker.patience": 1}), out=tmp_path / "run")
    about = run.about
    assert (about["status"], about["best_epoch"], about["valid_mrr"]) == ("finished", 4, None)
    assert about["calibration"]["is_relative"] and about["reliability"] is None  # nothing to fit it to
    assert "no dev queries" in (run.path / "card.md").read_text()
    with pytest.raises(DataError, match="has no test queries"):
        api.evaluate(run.path)


def test_epochs_can_be_evaluated_on_a_part_of_dev(tmp_path: Path):
    run = train_walker(VILLAGE, settings_of(ALONE | {"walker.dev_queries": 3, "walker.epochs": 1}), out=tmp_path / "run")
    assert run.history[0]["valid_num_queries"] == 3
    assert api.evaluate(run.path, "valid")["policy"].tails.num_queries == len(VILLAGE.valid)


def test_tensorboard_has_the_history(tmp_path: Path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = train_walker(VILLAGE, settings_of(ALONE | {"walker.epochs": 3}), out=tmp_path / "run", tensorboard=True)
    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    for name in ("reward", "entropy", "hits", "false_negative_hits", "unique_paths", "valid_mrr"):
        written = [(event.step, event.value) for event in events.Scalars(name)]
        assert [step for step, _ in written] == [1, 2, 3]
        np.testing.assert_allclose([value for _, value in written], [record[name] for record in run.history], rtol=1e-6)


def test_tensorboard_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    with pytest.raises(MissingPackageError, match="needs the package tensorboard, which is not installed"):
        train_walker(VILLAGE, settings_of(ALONE), out=tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()


def test_missing_training_queries_are_an_error_before_a_scorer_is_trained(tmp_path: Path):
    recorder, empty = Recorder(), replace(VILLAGE, train=VILLAGE.train[:0])
    with pytest.raises(DataError, match="has no training queries"):
        train_walker(empty, settings_of(), out=tmp_path / "run", make_callbacks=lambda _: [recorder])
    assert recorder.batches == []
    assert not (tmp_path / "run").exists()


# Given scorers


def test_the_card_names_the_scorer_that_was_given(tmp_path: Path):
    scorer = api.train_scorer(VILLAGE, settings_of({"scorer.model": "distmult"}), out=tmp_path / "scorer")
    run = train_walker(VILLAGE, settings_of({"walker.epochs": 1}), out=tmp_path / "run", scorer=scorer.path)
    assert "distmult, in the folder `scorer`" in (run.path / "card.md").read_text()


def test_an_ensemble_can_be_given(tmp_path: Path, trained_walker: Run):
    members = [
        trained_walker.path / "scorer",
        api.train_scorer(VILLAGE, settings_of({"scorer.seed": 1}), out=tmp_path / "1").path,
    ]
    both = api.combine_scorers(members, out=tmp_path / "both")
    run = train_walker(VILLAGE, settings_of({"walker.epochs": 1}), out=tmp_path / "run", scorer=both.path)
    shutil.rmtree(tmp_path / "both")
    assert api.evaluate(run.path)["policy"].tails.num_queries == len(VILLAGE.test)
    assert "an ensemble, in the folder `scorer`" in (run.path / "card.md").read_text()


# Runs of the first version


def test_parameters_have_the_names_of_today():
    names = [*runs.build_environment(VILLAGE, settings_of()).policy.state_dict()]
    old_names = [name.replace("w1.", "hidden.").replace("w2.", "output.") for name in names]
    assert old_names != names
    for prefix in ("", "model.", "learner.optimizer."):
        assert [migrated_parameter("walker", prefix + name) for name in old_names] == [prefix + name for name in names]
        assert [migrated_parameter("walker", prefix + name) for name in names] == [prefix + name for name in names]
    assert migrated_parameter("conve", "hidden.weight") == "hidden.weight"  # of another model
