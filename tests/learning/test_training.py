"""Training into a run folder: history, the best epoch, early stopping, divergence."""

import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import hopwalk
from hopwalk.errors import DivergedError
from hopwalk.learning.run import Run
from hopwalk.learning.training import Learner, OnBatch, train
from hopwalk.scorers.models import MODELS
from tests.support.helpers import FAMILY, dataset_of
from tests.support.schools import BEST_IS_NOT_LAST, SCHOOL, TRAINED, settings_of
from tests.support.stopping import Recorder


def test_history_has_a_line_for_every_evaluation(tmp_path: Path):
    callback = Recorder()
    run = hopwalk.train_scorer(SCHOOL, settings_of(evaluate_every=2), out=tmp_path / "run", callbacks=[callback])
    assert [record["epoch"] for record in run.history] == [2, 4, 5]  # the last epoch is evaluated in any case
    assert run.history == callback.records
    assert callback.batches == [(epoch, batch) for epoch in range(1, 6) for batch in range(1, 4)]  # 84 queries, 32 per batch
    for record in run.history:
        assert {"loss", "valid_mrr", "valid_hits@10", "seconds"} < {*record}
        assert record["valid_num_queries"] == len(SCHOOL.valid)


def test_the_best_epoch_is_kept(tmp_path: Path):
    run = hopwalk.train_scorer(SCHOOL, settings_of(epochs=8, seed=BEST_IS_NOT_LAST), out=tmp_path / "run")
    mrrs = [record["valid_mrr"] for record in run.history]
    about = run.about
    assert (about["status"], about["epochs"]) == ("finished", 8)
    assert about["best_epoch"] == 1 + int(np.argmax(mrrs)) < 8
    assert hopwalk.evaluate(run.path, "valid")["scorer"].tails.mrr == about["valid_mrr"] == max(mrrs)
    assert not run.checkpoint_path.exists()
    assert sorted(path.name for path in run.path.iterdir() if path.name.startswith(".")) == []  # nothing half written


def test_training_stops_when_dev_does_not_get_better(tmp_path: Path):
    run = hopwalk.train_scorer(
        SCHOOL, settings_of(epochs=50, patience=2, evaluate_every=2, seed=BEST_IS_NOT_LAST), out=tmp_path / "run"
    )
    assert run.about["epochs"] == run.about["best_epoch"] + 4 < 50


class Scripted(Learner):
    """A learner whose dev MRRs are given."""

    name, remedy, seed, epochs, evaluate_every, patience = "scripted", "", 0, 100, 1, 2

    def __init__(self, mrrs: Sequence[float], mean_window: int) -> None:
        self.model, self._mrrs, self.mean_window = nn.Linear(1, 1), iter(mrrs), mean_window

    def learn(self, epoch: int, generator: torch.Generator, on_batch: OnBatch) -> dict[str, float]:
        return {"loss": 0.0}

    def measure(self) -> dict[str, Any]:
        return {"valid_mrr": next(self._mrrs)}

    def state(self) -> dict[str, Tensor]:
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        pass


@pytest.mark.parametrize(("mean_window", "epochs"), [(0, 4), (3, 6)])
def test_training_can_stop_below_the_mean_of_dev(tmp_path: Path, mean_window: int, epochs: int):
    """By patience after two evaluations without gain; or in the first epoch whose MRR is below the mean of the last three."""
    mrrs = [0.1, 0.4, 0.3, 0.38, 0.5, 0.3, 0.2, 0.1]
    run = Run.begin(tmp_path / "run", SCHOOL, settings_of(), kind="scorer", resume=False)
    outcome = train(run, Scripted(mrrs, mean_window))
    assert outcome is not None
    assert (outcome["epochs"], outcome["best_epoch"]) == (epochs, 2 if mean_window == 0 else 5)


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
    assert (
        hopwalk.evaluate(tmp_path / "elsewhere")["scorer"].to_dict() == hopwalk.evaluate(trained_scorer.path)["scorer"].to_dict()
    )


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
    settings = settings_of(model=model, n3=0.0)
    # On so few facts, training diverges only with a learning rate beyond the bounds of the setting: a copy is not validated.
    scorer = settings.scorer.model_copy(update={"learning_rate": learning_rate})
    with pytest.raises(
        DivergedError, match=r"diverged: .*\. (Set|Train it with) a smaller (scorer\.learning_rate|learning rate)"
    ):
        hopwalk.train_scorer(SCHOOL, settings.model_copy(update={"scorer": scorer}), out=tmp_path / "run")


class Steps(Learner):
    """A learner with one parameter, whose losses and values of the parameter are given by epoch."""

    name, remedy, seed, evaluate_every, patience = "steps", "Take smaller steps.", 0, 1, 100

    def __init__(self, losses: Sequence[float], values: Sequence[float]) -> None:
        self.model, self.epochs = nn.Linear(1, 1, bias=False), len(losses)
        self._losses, self._values = losses, values

    def learn(self, epoch: int, generator: torch.Generator, on_batch: OnBatch) -> dict[str, float]:
        nn.init.constant_(self.model.get_parameter("weight"), self._values[epoch - 1])
        on_batch(1, 1, {"loss": self._losses[epoch - 1]})
        return {"loss": self._losses[epoch - 1]}

    def measure(self) -> dict[str, Any]:
        return {}

    def state(self) -> dict[str, Tensor]:
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        pass


@pytest.mark.parametrize(
    ("losses", "values", "message"),
    [
        ([1.0, math.nan], [1.0, 1.0], "training diverged: the loss is nan in epoch 2. Take smaller steps."),
        ([1.0, math.inf], [1.0, 1.0], "training diverged: the loss is inf in epoch 2. Take smaller steps."),
        ([1.0, 1.0], [1.0, math.nan], "training diverged: parameters are not finite after epoch 2. Take smaller steps."),
        ([1.0, 1.0], [-math.inf, 1.0], "training diverged: parameters are not finite after epoch 1. Take smaller steps."),
    ],
)
def test_divergence_of_the_loss_and_of_parameters(tmp_path: Path, losses: list[float], values: list[float], message: str):
    run = Run.begin(tmp_path / "run", dataset_of(FAMILY), settings_of(), kind="scorer")
    with pytest.raises(DivergedError) as error:
        train(run, Steps(losses, values))
    assert str(error.value) == message
