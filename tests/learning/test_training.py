"""Training a scorer: a rule is learnt, a seed decides everything, and a run holds its best epoch."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hopwalk
from hopwalk.config.settings import ScorerSettings
from hopwalk.errors import HopwalkError
from hopwalk.learning.evaluation import evaluate_split
from hopwalk.learning.run import Run
from hopwalk.scorers import runs
from hopwalk.scorers.base import TrainableScorer
from hopwalk.scorers.models import MODELS, build_scorer
from tests.support.helpers import FAMILY, dataset_of
from tests.support.schools import BEST_IS_NOT_LAST, SCHOOL, TRAINED, settings_of
from tests.support.stopping import Recorder, result_of

# Learning

RECIPES: dict[str, dict[str, Any]] = {
    "distmult": {"learning_rate": 0.1, "n3": 0.01},
    "complex": {"learning_rate": 0.1, "n3": 0.01},
    "conve": {"learning_rate": 0.01, "optimizer": "adam", "n3": 0.0, "feature_dropout": 0.1, "hidden_dropout": 0.1},
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("loss", ["softmax", "binary"])
def test_a_rule_is_learnt(tmp_path: Path, model: str, loss: str):
    size = {"dimension": 24, "embedding_height": 4, "num_filters": 8, "initial_scale": 0.3}
    settings = settings_of(model=model, loss=loss, epochs=60, evaluate_every=10, **size, **RECIPES[model])
    before = build_scorer(len(SCHOOL.entities), len(SCHOOL.relations), settings.scorer).eval()
    assert evaluate_split(before.numpy_scores, SCHOOL).tails.mrr < 0.5
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run")
    assert hopwalk.evaluate(run.path).tails.mrr == 1
    assert hopwalk.evaluate(run.path, "valid").tails.mrr == 1
    losses = [record["loss"] for record in run.history]
    assert losses[-1] < losses[0]


def test_distmult_cannot_learn_a_direction_and_complex_can(tmp_path: Path):
    """Every class teaches the next one round a ring: for DistMult the class before is as likely as the one after."""
    facts = [
        (f"{room}{one}", "teaches", f"{'bcda'['abcd'.index(room)]}{two}") for room in "abcd" for one in "123" for two in "123"
    ]
    ring = dataset_of(facts, test=facts[::7])
    found = {}
    for model in ("distmult", "complex"):
        settings = settings_of(model=model, dimension=16, epochs=30, evaluate_every=30, initial_scale=0.3, learning_rate=0.1)
        found[model] = hopwalk.evaluate(hopwalk.train_scorer(ring, settings, out=tmp_path / model).path).tails.mrr
    assert found["complex"] == 1
    assert found["distmult"] < 0.7


@pytest.mark.parametrize("model", MODELS)
def test_a_seed_decides_everything(tmp_path: Path, model: str):
    results = []
    for number, seed in enumerate((5, 5, 6)):
        torch.manual_seed(number)  # randomness of the process must not matter
        run = hopwalk.train_scorer(SCHOOL, settings_of(model=model, seed=seed, epochs=2), out=tmp_path / str(number))
        results.append(result_of(run))
    assert results[0] == results[1]
    assert results[0][0] != results[2][0]
    assert [record["loss"] for record in results[0][1]] != [record["loss"] for record in results[2][1]]


def test_a_seed_decides_everything_with_two_threads_too(tmp_path: Path):
    """With so many dimensions PyTorch divides the work: gradients must not add up in whatever order threads come."""
    settings = settings_of(model="complex", dimension=800, batch_size=128, epochs=10, relation_weight=0.5, train_on_valid=True)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        first, second = (hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / name) for name in ("first", "second"))
    finally:
        torch.set_num_threads(threads)
    assert first.weights_path.read_bytes() == second.weights_path.read_bytes()


def test_epochs_and_seeds_differ_in_their_random_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The loss of a scorer that begins as all others and cannot move changes only through the order of questions and dropout."""

    def build(num_entities: int, num_relations: int, settings: ScorerSettings, *more: Any) -> TrainableScorer:
        return build_scorer(num_entities, num_relations, settings.model_copy(update={"seed": 0}), *more)

    monkeypatch.setattr(runs, "build_scorer", build)
    losses = []
    for seed in (1, 2):
        settings = settings_of(learning_rate=1e-30, input_dropout=0.5, initial_scale=1.0, seed=seed)
        losses += [record["loss"] for record in hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / str(seed)).history]
    assert len({*losses}) == len(losses) == 10


# What a run holds


def test_the_complete_filter_by_hand():
    """Bob scores higher than Dan, whom dev asks for: only those who know the test answer leave Bob out."""
    family = dataset_of(FAMILY, valid=[("ann", "knows", "dan")], test=[("ann", "knows", "bob")])
    scores = np.array([0, 5, 1, 3, 2], dtype=np.float32)  # ann, bob, cat, dan, eve

    def score_all_tails(heads: np.ndarray, relations: np.ndarray) -> np.ndarray:
        return np.tile(scores, (len(heads), 1))

    plain, complete = (evaluate_split(score_all_tails, family, "valid", complete_filter=is_so) for is_so in (False, True))
    assert (plain.tails.mrr, plain.is_filter_complete) == (1 / 2, False)
    assert (complete.tails.mrr, complete.is_filter_complete) == (1, True)
    assert plain.heads.mrr == 1 / 5  # (dan, knows⁻¹, ?) has Ann last
    assert evaluate_split(score_all_tails, family, "test").tails.mrr == 1


def test_history_has_a_line_for_every_evaluation(tmp_path: Path):
    callback = Recorder()
    run = hopwalk.train_scorer(SCHOOL, settings_of(evaluate_every=2), out=tmp_path / "run", callback=callback)
    assert [record["epoch"] for record in run.history] == [2, 4, 5]  # the last epoch is evaluated in any case
    assert run.history == callback.records
    assert callback.batches == [(epoch, batch) for epoch in range(1, 6) for batch in range(1, 4)]  # 84 questions, 32 at a time
    for record in run.history:
        assert {"loss", "valid_mrr", "valid_hits@10", "seconds"} < {*record}
        assert record["valid_num_queries"] == len(SCHOOL.valid)


def test_the_best_epoch_is_kept(tmp_path: Path):
    run = hopwalk.train_scorer(SCHOOL, settings_of(epochs=8, seed=BEST_IS_NOT_LAST), out=tmp_path / "run")
    mrrs = [record["valid_mrr"] for record in run.history]
    about = run.about
    assert (about["status"], about["epochs"]) == ("finished", 8)
    assert about["best_epoch"] == 1 + int(np.argmax(mrrs)) < 8
    assert hopwalk.evaluate(run.path, "valid").tails.mrr == about["valid_mrr"] == max(mrrs)
    assert not run.checkpoint_path.exists()
    assert sorted(path.name for path in run.path.iterdir() if path.name.startswith(".")) == []  # nothing half written


def test_training_stops_when_dev_does_not_get_better(tmp_path: Path):
    run = hopwalk.train_scorer(
        SCHOOL, settings_of(epochs=50, patience=2, evaluate_every=2, seed=BEST_IS_NOT_LAST), out=tmp_path / "run"
    )
    assert run.about["epochs"] == run.about["best_epoch"] + 4 < 50


def test_without_dev_queries_the_last_epoch_counts(tmp_path: Path):
    run = hopwalk.train_scorer(dataset_of(FAMILY), settings_of(patience=1), out=tmp_path / "run")
    about = run.about
    assert (about["status"], about["epochs"], about["best_epoch"], len(run.history)) == ("finished", 5, 5, 5)
    assert about["valid_mrr"] is None
    hopwalk.load_scorer(run.path)


def test_a_folder_can_be_copied(tmp_path: Path, trained_scorer: Run):
    shutil.copytree(trained_scorer.path, tmp_path / "elsewhere")
    here, there = hopwalk.load_scorer(trained_scorer.path), hopwalk.load_scorer(tmp_path / "elsewhere")
    ids = torch.arange(4)
    assert torch.equal(here.score_all_tails(ids, ids), there.score_all_tails(ids, ids))
    assert here.calibration == there.calibration
    assert hopwalk.evaluate(tmp_path / "elsewhere").to_dict() == hopwalk.evaluate(trained_scorer.path).to_dict()


def test_settings_of_a_run_are_a_preset(trained_scorer: Run):
    assert hopwalk.load_settings(trained_scorer.path / "settings.toml") == TRAINED


@pytest.mark.parametrize(
    ("model", "learning_rate"),
    [
        *((model, 1e30) for model in MODELS),
        ("distmult", 1e12),
        ("complex", 1e12),
        ("conve", 1e12),
    ],
)
def test_divergence(tmp_path: Path, model: str, learning_rate: float):
    with pytest.raises(HopwalkError, match=r"smaller scorer\.learning_rate"):
        hopwalk.train_scorer(SCHOOL, settings_of(model=model, learning_rate=learning_rate, n3=0.0), out=tmp_path / "run")


@pytest.mark.parametrize("model", ["distmult", "complex", "conve"])
def test_a_last_batch_of_one_query(tmp_path: Path, model: str):
    """84 questions, 83 at a time: batch normalisation of one vector has no meaning."""
    assert hopwalk.train_scorer(SCHOOL, settings_of(model=model, batch_size=83), out=tmp_path / "run").about["epochs"] == 5
