"""Training learns a rule, gives the same result however often it is stopped, and leaves folders that cannot mislead."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hopwalk
from hopwalk import training
from hopwalk.arrays import save_arrays
from hopwalk.cli import main, train
from hopwalk.config import ScorerSettings, Settings, changed
from hopwalk.data.dataset import Dataset
from hopwalk.errors import HopwalkError, RunError, SavedFileError, SettingsError, UnknownNameError
from hopwalk.evaluation import evaluate_split
from hopwalk.run import Run
from hopwalk.scorers import runs
from hopwalk.scorers.base import TrainableScorer
from hopwalk.scorers.models import MODELS, build_scorer
from tests.helpers import FAMILY, dataset_of


def school_of(num_classes: int = 6) -> Dataset:
    """Teachers teach all pupils of their class. Who is taught by whom is the same the other way round, and partly held out."""
    teaches = [
        (f"teacher {room}{teacher}", "teaches", f"pupil {room}{pupil}")
        for room in "abcdef"[:num_classes]
        for teacher in range(3)
        for pupil in range(4)
    ]
    taught = [(pupil, "taught_by", teacher) for teacher, _, pupil in teaches]
    held_out = taught[::5]
    return dataset_of(teaches + [fact for fact in taught if fact not in held_out], held_out[::2], held_out[1::2])


SCHOOL = school_of()
BEST_IS_NOT_LAST = 0  # a seed with which the best epoch is not the last


def settings_of(**values: Any) -> Settings:
    """Settings of a tiny scorer. Its learning rate is too high, so that the best epoch is not the last."""
    tiny = {"model": "distmult", "dimension": 12, "picture_height": 3, "num_filters": 4, "initial_scale": 0.1, "batch_size": 32}
    short = {"epochs": 5, "patience": 100, "learning_rate": 0.3}
    return changed(Settings(), {f"scorer.{name}": value for name, value in (tiny | short | values).items()})


class Recorder:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int]] = []
        self.records: list[Mapping[str, Any]] = []

    def on_batch(self, epoch: int, batch: int, num_batches: int, values: Mapping[str, float]) -> None:
        assert batch <= num_batches
        self.batches.append((epoch, batch))

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        self.records.append(record)


class Stopped(Exception):  # noqa: N818
    """As if the power had gone."""


class StopAt(Recorder):
    """A watcher that ends training at a batch of an epoch, or at its evaluation (batch 0)."""

    def __init__(self, epoch: int, batch: int, error: type[BaseException] = Stopped) -> None:
        super().__init__()
        self._place, self._error = (epoch, batch), error

    def on_batch(self, epoch: int, batch: int, num_batches: int, values: Mapping[str, float]) -> None:
        super().on_batch(epoch, batch, num_batches, values)
        if (epoch, batch) == self._place:
            raise self._error

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        super().on_evaluation(record)
        if (record["epoch"], 0) == self._place:
            raise self._error


def result_of(run: Run) -> tuple[bytes, list[dict[str, Any]], dict[str, Any]]:
    """All that training gives, but for the time and memory it took."""
    history = [{name: value for name, value in record.items() if "seconds" not in name} for record in run.history]
    about = {name: value for name, value in run.about.items() if name not in ("seconds", "peak_memory_bytes")}
    return run.weights_path.read_bytes(), history, about


@pytest.fixture
def checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every evaluation, without the wait for the disk."""
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    monkeypatch.setattr(os, "fsync", lambda _: None)


# Learning

RECIPES: dict[str, dict[str, Any]] = {
    "distmult": {"learning_rate": 0.1, "n3": 0.01},
    "complex": {"learning_rate": 0.1, "n3": 0.01},
    "conve": {"learning_rate": 0.01, "optimizer": "adam", "n3": 0.0, "feature_dropout": 0.1, "hidden_dropout": 0.1},
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("loss", ["softmax", "binary"])
def test_a_rule_is_learnt(tmp_path: Path, model: str, loss: str):
    size = {"dimension": 24, "picture_height": 4, "num_filters": 8, "initial_scale": 0.3}
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
    watcher = Recorder()
    run = hopwalk.train_scorer(SCHOOL, settings_of(evaluate_every=2), out=tmp_path / "run", watcher=watcher)
    assert [record["epoch"] for record in run.history] == [2, 4, 5]  # the last epoch is evaluated in any case
    assert run.history == watcher.records
    assert watcher.batches == [(epoch, batch) for epoch in range(1, 6) for batch in range(1, 4)]  # 84 questions, 32 at a time
    for record in run.history:
        assert {"loss", "valid_mrr", "valid_hits@10", "seconds"} < {*record}
        assert record["valid_num_questions"] == len(SCHOOL.valid)


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


def test_without_dev_questions_the_last_epoch_counts(tmp_path: Path):
    run = hopwalk.train_scorer(dataset_of(FAMILY), settings_of(patience=1), out=tmp_path / "run")
    about = run.about
    assert (about["status"], about["epochs"], about["best_epoch"], len(run.history)) == ("finished", 5, 5, 5)
    assert about["valid_mrr"] is None
    hopwalk.load_scorer(run.path)


def test_a_folder_can_be_copied(tmp_path: Path, trained: Run):
    shutil.copytree(trained.path, tmp_path / "elsewhere")
    here, there = hopwalk.load_scorer(trained.path), hopwalk.load_scorer(tmp_path / "elsewhere")
    ids = torch.arange(4)
    assert torch.equal(here.score_all_tails(ids, ids), there.score_all_tails(ids, ids))
    assert here.calibration == there.calibration
    assert hopwalk.evaluate(tmp_path / "elsewhere").to_dict() == hopwalk.evaluate(trained.path).to_dict()


def test_settings_of_a_run_are_a_preset(trained: Run):
    assert hopwalk.load_settings(trained.path / "settings.toml") == TRAINED


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
def test_a_last_batch_of_one_question(tmp_path: Path, model: str):
    """84 questions, 83 at a time: batch normalisation of one vector has no meaning."""
    assert hopwalk.train_scorer(SCHOOL, settings_of(model=model, batch_size=83), out=tmp_path / "run").about["epochs"] == 5


# Stopped and gone on

CASES: dict[str, dict[str, Any]] = {
    "adagrad": {},
    "adam": {"optimizer": "adam", "model": "complex"},
    "batch norm": {"model": "conve", "optimizer": "adam", "loss": "binary"},
    "batch norm, adagrad": {"model": "conve"},
    "sampled": {"candidates": 8, "model": "complex"},
    "sampled, adam": {"candidates": 8, "optimizer": "adam", "loss": "binary"},
    "dropout": {"input_dropout": 0.3, "evaluate_every": 2},
    "early stop": {"patience": 2, "epochs": 30},
}


@pytest.mark.parametrize("case", CASES)
def test_stopped_anywhere_the_result_is_the_same(tmp_path: Path, checkpoints: None, case: str):
    settings = settings_of(**CASES[case], seed=BEST_IS_NOT_LAST)
    whole = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole")
    expected, last, every = result_of(whole), whole.about["epochs"], settings.scorer.evaluate_every
    for epoch in range(1, last + 1):
        for batch in (2, 0):  # in the middle of the epoch, and when it has been evaluated but not saved
            if batch == 0 and epoch % every and epoch != last:
                continue
            folder = tmp_path / f"{epoch}-{batch}"
            with pytest.raises(Stopped):
                hopwalk.train_scorer(SCHOOL, settings, out=folder, watcher=StopAt(epoch, batch))
            assert Run.open(folder).about["status"] == "training"
            watcher = Recorder()
            run = hopwalk.train_scorer(SCHOOL, settings, out=folder, resume=True, watcher=watcher)
            assert watcher.batches[0] == ((epoch - 1) // every * every + 1, 1)  # it did go on, and not from the beginning
            assert result_of(run) == expected


def test_stopped_again_and_again(tmp_path: Path, checkpoints: None):
    settings = settings_of(seed=BEST_IS_NOT_LAST)
    expected = result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole"))
    for epoch in range(1, 6):
        with pytest.raises(Stopped):
            hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True, watcher=StopAt(epoch, 2))
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()
    assert result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True)) == expected
    assert not (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_stopped_between_the_two_files_of_a_checkpoint(tmp_path: Path, checkpoints: None, monkeypatch: pytest.MonkeyPatch):
    settings = settings_of(seed=BEST_IS_NOT_LAST)
    expected = result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole"))
    for epoch in range(1, 6):
        calls = 0

        def fail(*arguments: Any, last: int = epoch) -> int:
            nonlocal calls
            calls += 1
            if calls == last:
                raise Stopped
            return save_arrays(*arguments)

        with monkeypatch.context() as patch, pytest.raises(Stopped):
            patch.setattr(training, "save_arrays", fail)
            hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / str(epoch))
        run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / str(epoch), resume=True)
        assert result_of(run) == expected


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_ctrl_c_leaves_a_usable_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_checkpoint: bool):
    settings = settings_of(model="conve", seed=BEST_IS_NOT_LAST)
    expected = result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole"))
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 0.0 if has_checkpoint else 1000.0)
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", watcher=StopAt(4, 2, KeyboardInterrupt))
    about = run.about
    assert (about["status"], about["epochs"]) == ("interrupted", 3)
    assert about["valid_mrr"] == max(record["valid_mrr"] for record in run.history)
    assert hopwalk.evaluate(run.path, "valid").tails.mrr == about["valid_mrr"]
    assert "interrupted" in (run.path / "card.md").read_text()
    watcher = Recorder()
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True, watcher=watcher)
    assert watcher.batches[0] == (4 if has_checkpoint else 1, 1)
    assert result_of(run) == expected


def test_ctrl_c_before_the_first_evaluation(tmp_path: Path):
    settings = settings_of()
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", watcher=StopAt(1, 1, KeyboardInterrupt))
    about = run.about
    assert (about["status"], about["epochs"], about["best_epoch"], about["valid_mrr"]) == ("interrupted", 0, 0, None)
    hopwalk.evaluate(run.path)
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True)
    assert result_of(run) == result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole"))


def test_ctrl_c_soon_after_going_on_keeps_what_there_was(tmp_path: Path):
    settings = settings_of()
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", watcher=StopAt(4, 1, KeyboardInterrupt))
    weights, _, about = result_of(run)
    assert about["best_epoch"] > 0
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True, watcher=StopAt(1, 1, KeyboardInterrupt))
    assert (result_of(run)[0], result_of(run)[2]) == (weights, about)
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True)
    assert result_of(run) == result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole"))


@pytest.mark.parametrize(
    "is_interrupted",
    [False, True],
)
def test_stopped_before_the_probabilities_are_fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_interrupted: bool):
    def fail(*_: Any) -> None:
        raise Stopped

    settings = settings_of()
    if is_interrupted:
        hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", watcher=StopAt(2, 1, KeyboardInterrupt))
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(runs, "calibrate", fail)
        hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True)
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True)
    assert result_of(run) == result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole"))
    assert "finished" in (run.path / "card.md").read_text()


def test_resuming_what_is_finished_does_nothing(tmp_path: Path, trained: Run):
    shutil.copytree(trained.path, tmp_path / "run")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "run").iterdir()}
    watcher = Recorder()
    hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path / "run", resume=True, watcher=watcher)
    assert watcher.batches == []
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "run").iterdir()} == before


def test_resuming_what_is_not_there_begins(tmp_path: Path, trained: Run):
    run = hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path / "new" / "run", resume=True)
    assert result_of(run) == result_of(trained)


# A process that saves after every epoch, and waits in one of them for what may come.
PROCESS = """
import sys, time
from hopwalk.cli import main, train
from hopwalk import training
from hopwalk.scorers import runs
from hopwalk.scorers.base import TrainableScorer

def on_batch(self, epoch, *_):
    time.sleep(60 if epoch == {epoch} else 0)

training.SECONDS_BETWEEN_CHECKPOINTS, train.TrainingBar.on_batch = 0, on_batch
main.run()
"""


def test_killed_and_gone_on(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    """Real processes: Ctrl-C, then `kill -9`, then to the end."""
    arguments = ["train", "umls", "--scorer", "distmult", "--epochs", "8"]
    arguments += ["--set", "scorer.dimension=8", "--set", "scorer.batch_size=1024", "--out"]
    checkpoint = in_folder / "stopped" / "checkpoint.safetensors"
    for kind, epoch in ((signal.SIGINT, 3), (signal.SIGKILL, 6)):
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else None
        process = subprocess.Popen(
            [sys.executable, "-c", PROCESS.format(epoch=epoch), *arguments, "stopped", "--resume"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            while process.poll() is None and (not checkpoint.exists() or checkpoint.stat().st_mtime_ns == before):
                time.sleep(0.02)
        finally:
            process.send_signal(kind)
            stdout, stderr = process.communicate()
        assert "Traceback" not in stderr, stderr
        assert process.returncode == (0 if kind == signal.SIGINT else -signal.SIGKILL), stderr
        assert Run.open("stopped").about["status"] == "interrupted"  # SIGKILL leaves what Ctrl-C wrote
        assert ("stopped: interrupted after" in stdout) == (kind == signal.SIGINT)
    command(capsys, *arguments, "stopped", "--resume")
    assert "finished after 8 epochs" in command(capsys, *arguments, "whole").out
    assert result_of(Run.open("stopped")) == result_of(Run.open("whole"))


# What must be refused

TRAINED = settings_of(epochs=2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run, not to be changed."""
    return hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path_factory.mktemp("trained") / "run")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seed": 1}, r"has scorer\.seed = 0, not 1: it cannot go on with another"),
        ({"epochs": 3}, r"has scorer\.epochs = 2, not 3"),
        ({"model": "complex"}, r"has scorer\.model = 'distmult', not 'complex'"),
    ],
    ids=str,
)
def test_no_going_on_with_other_settings(trained: Run, values: dict[str, Any], message: str):
    before = result_of(trained)
    with pytest.raises(SettingsError, match=message):
        hopwalk.train_scorer(SCHOOL, settings_of(**({"epochs": 2} | values)), out=trained.path, resume=True)
    assert result_of(trained) == before


def test_no_going_on_with_other_data(trained: Run):
    for other in (school_of(5), dataset_of(SCHOOL.labels_of(SCHOOL.train), SCHOOL.labels_of(SCHOOL.test))):
        with pytest.raises(RunError, match="the run was trained on other data"):
            hopwalk.train_scorer(other, TRAINED, out=trained.path, resume=True)


def test_used_folders(tmp_path: Path, trained: Run):
    with pytest.raises(RunError, match=r"there is a run in this folder already\. Go on with it with --resume"):
        hopwalk.train_scorer(SCHOOL, TRAINED, out=trained.path)
    (tmp_path / "notes.txt").write_text("mine")
    for resume in (False, True):
        for folder in (tmp_path, tmp_path / "notes.txt"):
            with pytest.raises(RunError, match="this is no empty folder"):
                hopwalk.train_scorer(SCHOOL, TRAINED, out=folder, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    (tmp_path / "empty").mkdir()
    hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path / "empty")


@pytest.mark.parametrize("last", ["dataset.safetensors", "settings.toml", "run.json"])
def test_killed_before_it_had_begun(tmp_path: Path, trained: Run, monkeypatch: pytest.MonkeyPatch, last: str):
    """The folder has no run.json, and a file that is half written."""
    folder, replace = tmp_path / "run", Path.replace

    def kill(self: Path, target: Path) -> Path:
        if target.name == last:
            shutil.copy(self, self.with_name(f"{self.name[:-16]}{'0' * 16}"))  # `kill -9` would not have it removed
            raise Stopped
        return replace(self, target)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Path, "replace", kill)
        hopwalk.train_scorer(SCHOOL, TRAINED, out=folder)
    assert f".{last}.{'0' * 16}" in [path.name for path in folder.iterdir()]
    with pytest.raises(RunError, match="this is no empty folder"):
        hopwalk.train_scorer(SCHOOL, TRAINED, out=folder)
    assert result_of(hopwalk.train_scorer(SCHOOL, TRAINED, out=folder, resume=True)) == result_of(trained)
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("names", [["settings.toml"], ["dataset.safetensors", "graph.safetensors"], [".settings.toml.mine"]])
def test_what_is_no_run_that_had_begun_is_left_alone(tmp_path: Path, names: list[str]):
    for name in names:
        (tmp_path / name).write_text("mine")
    with pytest.raises(RunError, match="this is no empty folder"):
        hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path, resume=True)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(names, "mine")


def test_what_cannot_be_built_leaves_no_folder(tmp_path: Path):
    with pytest.raises(UnknownNameError, match="Did you mean 'distmult'"):
        hopwalk.train_scorer(SCHOOL, settings_of(model="distmul"), out=tmp_path / "run")
    with pytest.raises(SettingsError, match="does not make a picture"):
        hopwalk.train_scorer(SCHOOL, settings_of(model="conve", dimension=13), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def _flip(name: str) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        content = bytearray((run / name).read_bytes())
        content[-100] ^= 1
        (run / name).write_bytes(content)

    return damage


def _cut(name: str, size: int) -> Callable[[Path], None]:
    return lambda run: os.truncate(run / name, size)


def _remove(name: str) -> Callable[[Path], None]:
    return lambda run: (run / name).unlink()


def _write(name: str, text: str | bytes) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        (run / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    return damage


def _say(**values: Any) -> Callable[[Path], None]:
    return lambda run: Run(run).write_about(Run(run).about | values)


def _weights_of(**values: Any) -> Callable[[Path], None]:
    """The weights of another scorer, of the same data."""

    def damage(run: Path) -> None:
        scorer = build_scorer(len(SCHOOL.entities), len(SCHOOL.relations), settings_of(**values).scorer)
        Run(run).save_weights(training.arrays_of(scorer), TRAINED.scorer.model)

    return damage


def _weights_of_complex(run: Path) -> None:
    """The weights of a run whose numbers are as many: 6 complex ones are 12."""
    other = hopwalk.train_scorer(SCHOOL, settings_of(model="complex", dimension=6, epochs=1), out=run.with_name("other"))
    shutil.copy(other.weights_path, run / "weights.safetensors")


def _weights_changed(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Weights that are whole, but not what they should be."""

    def damage(run: Path) -> None:
        file = Run(run).load_weights()
        Run(run).save_weights({name: change(file.array(name)) for name in file.names}, TRAINED.scorer.model)

    return damage


def _swap_data(run: Path) -> None:
    """The same shapes, one fact different."""
    facts = SCHOOL.labels_of(SCHOOL.train)
    other = dataset_of(
        [*facts[1:], ("pupil a0", "teaches", "pupil a1")], SCHOOL.labels_of(SCHOOL.valid), SCHOOL.labels_of(SCHOOL.test)
    )
    assert (len(other.entities), len(other.relations)) == (len(SCHOOL.entities), len(SCHOOL.relations))
    other.save(run / "dataset.safetensors")


def _weights_as_data(run: Path) -> None:
    shutil.copy(run / "weights.safetensors", run / "dataset.safetensors")


def _remove_all(run: Path) -> None:
    shutil.rmtree(run)


def _foreign(run: Path) -> None:
    shutil.rmtree(run)
    run.mkdir()
    (run / "model.safetensors").write_bytes(b"somebody else's")


def _file_instead(run: Path) -> None:
    shutil.rmtree(run)
    run.write_text("a,r,b\n")


def _folder_instead(run: Path) -> None:
    (run / "run.json").unlink()
    (run / "run.json").mkdir()


def _no_number(array: Any) -> Any:
    array.flat[3] = np.nan
    return array


DAMAGES: dict[str, tuple[Callable[[Path], None], type[HopwalkError], str]] = {
    "weights, a flipped bit": (_flip("weights.safetensors"), SavedFileError, "its content does not fit its checksum"),
    "weights cut off": (_cut("weights.safetensors", 500), SavedFileError, "this is not a whole hopwalk file"),
    "weights empty": (_cut("weights.safetensors", 0), SavedFileError, "this is not a whole hopwalk file"),
    "weights missing": (_remove("weights.safetensors"), SavedFileError, "the file cannot be opened"),
    "weights are text": (_write("weights.safetensors", "no\n" * 99), SavedFileError, "this is not a whole hopwalk file"),
    "weights of ConvE": (_weights_of(model="conve"), SavedFileError, "its parameters are not those of the model"),
    "weights of another size": (_weights_of(dimension=15), SavedFileError, "entities has another s"),
    "weights of another model of the same size": (_weights_of_complex, SavedFileError, "does not hold the weights of distmult"),
    "weights turned round": (_weights_changed(lambda array: array.T), SavedFileError, "entities has another s"),
    "weights of another type": (_weights_changed(lambda array: array.view(np.int32)), SavedFileError, "entities"),
    "weights that are no numbers": (_weights_changed(_no_number), SavedFileError, "has values that are no numbers"),
    "dataset, a flipped bit": (_flip("dataset.safetensors"), SavedFileError, "its content does not fit its checksum"),
    "dataset cut off": (_cut("dataset.safetensors", 700), SavedFileError, "this is not a whole hopwalk file"),
    "dataset missing": (_remove("dataset.safetensors"), SavedFileError, "the file cannot be opened"),
    "dataset of another run": (_swap_data, RunError, "the run was trained on other data"),
    "weights in place of the dataset": (_weights_as_data, SavedFileError, "this file does not hold a hopwalk dataset"),
    "run.json missing": (_remove("run.json"), RunError, "this folder is no run: run.json is missing"),
    "run.json cut off": (_cut("run.json", 100), RunError, "the file is damaged or cannot be read"),
    "run.json empty": (_cut("run.json", 0), RunError, "the file is damaged or cannot be read"),
    "run.json not text": (_write("run.json", b"\xff\xfe\x00"), RunError, "the file is damaged or cannot be read"),
    "run.json a list": (_write("run.json", "[1, 2]"), RunError, "it holds no JSON object"),
    "run.json a folder": (_folder_instead, RunError, "the file is damaged or cannot be read"),
    "run.json of the future": (_say(format=99), RunError, "written by another version of hopwalk"),
    "run.json without kind": (_say(kind=None), RunError, "written by another version of hopwalk"),
    "run.json of another kind": (_say(kind="walker"), RunError, "a run of kind 'walker', not a scorer"),
    "run.json without data": (_say(dataset="test"), RunError, "the run was trained on other data"),
    "calibration not there": (_say(calibration=[1, 2]), RunError, "its calibration cannot be read"),
    "calibration no number": (_say(calibration={"slope": "steep"}), RunError, "its calibration cannot be read"),
    "settings cut off": (_cut("settings.toml", 30), RunError, "not valid TOML"),
    "settings missing": (_remove("settings.toml"), RunError, "cannot be read"),
    "settings of another version": (_write("settings.toml", "[scorer]\nwings = 2\n"), RunError, "there is no setting"),
    "nothing there": (_remove_all, RunError, "there is no such folder"),
    "somebody else's folder": (_foreign, RunError, "this folder is no run: run.json is missing"),
    "a file": (_file_instead, RunError, "run"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_told(tmp_path: Path, trained: Run, capsys: pytest.CaptureFixture[str], name: str):
    damage, error, message = DAMAGES[name]
    folder = tmp_path / "run"
    shutil.copytree(trained.path, folder)
    hopwalk.load_scorer(folder)
    damage(folder)
    with pytest.raises(error, match=message) as raised:
        hopwalk.load_scorer(folder)
    assert str(folder) in str(raised.value)
    told = command(capsys, "evaluate", str(folder), code=1)
    assert told.err.startswith("error: ")
    assert told.out == ""


def test_no_byte_of_the_header_can_mislead(tmp_path: Path, trained: Run):
    shutil.copytree(trained.path, tmp_path / "run")
    path = tmp_path / "run" / "weights.safetensors"
    whole = path.read_bytes()
    size = 8 + int.from_bytes(whole[:8], "little")
    ids, random = torch.arange(4), np.random.default_rng(0)
    expected = hopwalk.load_scorer(trained.path).score_all_tails(ids, ids)
    for place in range(size):
        other = bytearray(whole)
        other[place] ^= int(random.integers(1, 256))
        path.write_bytes(other)
        try:
            found = hopwalk.load_scorer(tmp_path / "run").score_all_tails(ids, ids)
        except HopwalkError:
            continue
        assert torch.equal(found, expected), place


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_flip("checkpoint.safetensors"), "its content does not fit its checksum"),
        (_cut("checkpoint.safetensors", 900), "this is not a whole hopwalk file"),
        (
            lambda run: shutil.copy(run / "weights.safetensors", run / "checkpoint.safetensors"),
            "does not hold a hopwalk checkpoint",
        ),
        (_remove("weights.safetensors"), "the file cannot be opened"),
        (_flip("weights.safetensors"), "its content does not fit its checksum"),
        (_weights_of(dimension=15), "entities has another s"),
    ],
    ids=["flipped", "cut off", "weights", "no best weights", "flipped best weights", "other best weights"],
)
def test_a_damaged_checkpoint_is_not_gone_on_with(
    tmp_path: Path, checkpoints: None, damage: Callable[[Path], None], message: str
):
    with pytest.raises(Stopped):
        hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path / "run", watcher=StopAt(2, 1))
    damage(tmp_path / "run")
    with pytest.raises(SavedFileError, match=message):
        hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path / "run", resume=True)


# The command line


class Output:
    def __init__(self, out: str, err: str) -> None:
        self.out, self.err = out, err


def command(capsys: pytest.CaptureFixture[str], *arguments: str, code: int | None = 0) -> Output:
    """What `hopwalk ARGUMENTS` prints, without the seconds that a process of its own takes to begin."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", ["hopwalk", *arguments])
        main.run()
    printed = capsys.readouterr()
    assert code is None or (ended.value.code or 0) == code, printed.out + printed.err
    assert "Traceback" not in printed.err
    return Output(printed.out, printed.err)


@pytest.fixture
def school(in_folder: Path) -> Path:
    """The school as a folder of files, in the current folder."""
    hopwalk.write_folder(SCHOOL, "school")
    return in_folder


TINY = ["--epochs", "2", "--set", "scorer.dimension=8"]


def test_train_and_evaluate(school: Path, capsys: pytest.CaptureFixture[str]):
    printed = command(capsys, "train", "school", "--scorer", "DistMult", "--seed", "3", *TINY).out
    assert "runs/school-distmult: finished after 2 epochs; dev MRR" in printed
    assert "`hopwalk evaluate runs/school-distmult` ranks the test answers." in printed
    settings = Run.open("runs/school-distmult").settings.scorer
    assert (settings.model, settings.seed, settings.epochs, settings.dimension) == ("DistMult", 3, 2, 8)

    table = command(capsys, "evaluate", "runs/school-distmult").out
    assert "hits@10" in table
    assert "95 % interval" in table
    found = json.loads(command(capsys, "evaluate", "runs/school-distmult", "--json").out)
    assert found == json.loads(Path("runs/school-distmult/evaluation-test.json").read_text())
    assert (found["dataset"], found["split"], found["filter"]) == ("school", "test", "all known facts")
    assert found["tails"]["num_questions"] == found["heads"]["num_questions"] == len(SCHOOL.test)
    assert found["both"]["mrr"] == pytest.approx((found["tails"]["mrr"] + found["heads"]["mrr"]) / 2)
    assert found["relations"]["taught_by"]["mrr"] == pytest.approx(found["tails"]["mrr"])
    low, high = found["tails"]["mrr_interval_95"]
    assert low <= found["tails"]["mrr"] <= high

    on_dev = json.loads(command(capsys, "evaluate", "runs/school-distmult", "--split", "valid", "--json").out)
    assert on_dev["filter"] == "all known facts but those of test"
    assert on_dev["tails"]["mrr"] == Run.open("runs/school-distmult").about["valid_mrr"]
    complete = json.loads(command(capsys, "evaluate", "runs/school-distmult", "--split", "valid", "--complete", "--json").out)
    assert complete["filter"] == "all known facts"
    assert complete["tails"]["mrr"] >= on_dev["tails"]["mrr"]

    assert (
        "was finished already" in command(capsys, "train", "school", "--scorer", "DistMult", "--seed", "3", *TINY, "--resume").out
    )
    assert (
        "there is a run in this folder already" in command(capsys, "train", "school", "--scorer", "DistMult", *TINY, code=1).err
    )


@pytest.mark.parametrize("name", ["epochs", "best_epoch", "valid_mrr"])
def test_going_on_with_a_run_that_does_not_say_how_far_it_is(school: Path, capsys: pytest.CaptureFixture[str], name: str):
    command(capsys, "train", "school", "--scorer", "complex", *TINY, "--out", "run")
    run = Run.open("run")
    run.write_about({key: value for key, value in run.about.items() if key != name})
    command(
        capsys, "train", "school", "--scorer", "complex", *TINY, "--out", "run", "--resume", code=None
    )  # an error or not, but no traceback


def test_ctrl_c_at_the_command_line(school: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(train.TrainingBar, "on_batch", stop)
    printed = command(capsys, "train", "school", "--scorer", "complex", *TINY, "--out", "run").out
    assert "run: interrupted after 0 epochs" in printed
    assert "Go on with the same command and --resume." in printed
    assert "no dev questions" not in printed
    assert "finished" not in printed


def test_without_dev_and_test_questions(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    Path("facts.csv").write_text("a,r,b\nb,r,c\nc,q,a\n")
    printed = command(capsys, "train", "facts.csv", "--scorer", "complex", *TINY, "--out", "run").out
    assert "run: finished after 2 epochs\n" in printed
    for split in ("test", "valid"):
        told = command(capsys, "evaluate", "run", "--split", split, code=1).err
        assert f"error: facts has no {split} questions" in told
        assert "hopwalk data split" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "school", "--scorer", "complx"], "Did you mean 'complex'"),
        (["train", "school", "--scorer", "conve", *TINY], "scorer.dimension = 8 does not make a picture of 10 rows"),
        (["train", "school", "--recipe", "old"], "scorer.recipe = 'old' does not fit"),
        (["train", "school", "--scorer", "complex", "--epochs", "0"], "scorer.epochs = 0 does not fit"),
        (["train", "school", "--epochs", "0"], "walker.epochs = 0 does not fit"),
        (["train", "school", "--set", "scorer.dimensions=8"], "Did you mean 'scorer.dimension'"),
        (["train", "school", "--out", "school"], "school: this is no empty folder"),
        (["train", "school", "--scorer", "conve", "--set", "scorer.relation_weight=1"], "no meaning for ConvE"),
        (["train", "nothing"], "there is neither a data set nor a file 'nothing'"),
        (["evaluate", "nothing"], "nothing: there is no such folder"),
        (["evaluate", "school"], "school: this folder is no run: run.json is missing"),
        (["evaluate", "school", "--split", "train"], "there is no split 'train' to rank"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_get_one_clear_message(school: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str):
    told = command(capsys, *arguments, code=1)
    assert told.err.startswith("error: ")
    assert message in told.err
    assert told.out == ""
    assert not Path("runs").exists()


def test_divergence_at_the_command_line(school: Path, capsys: pytest.CaptureFixture[str]):
    told = command(capsys, "train", "school", "--scorer", "complex", *TINY, "--set", "scorer.learning_rate=1e30", code=1)
    assert "error: " in told.err  # after the progress bar
    assert "diverged" in told.err


def test_help_has_examples(capsys: pytest.CaptureFixture[str]):
    for name in ("train", "evaluate"):
        text = command(capsys, name, "--help").out
        assert "Examples" in text
        assert f"hopwalk {name} " in text


def test_tensorboard_that_is_not_installed(school: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    told = command(capsys, "train", "school", "--scorer", "complex", *TINY, "--out", "run", "--tensorboard", code=1).err
    assert "--tensorboard needs the package tensorboard, which is not installed" in told
    assert not Path("run").exists()


def test_a_seed_decides_everything_with_two_threads_too(tmp_path: Path):
    """With so many dimensions PyTorch divides the work: gradients must not add up in whatever order threads come."""
    settings = settings_of(model="complex", dimension=800, batch_size=128, epochs=10, relation_weight=0.5, learn_valid=True)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        first, second = (hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / name) for name in ("first", "second"))
    finally:
        torch.set_num_threads(threads)
    assert first.weights_path.read_bytes() == second.weights_path.read_bytes()
