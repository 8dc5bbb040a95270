"""Walkers in run folders: a rule is learnt, stopping changes nothing, and what is in a folder is what it says."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hopwalk
from hopwalk import api, training
from hopwalk.cli import train as cli_train
from hopwalk.config import Settings, load_settings, settings_toml, suited_settings
from hopwalk.data.dataset import Dataset
from hopwalk.errors import DataError, HopwalkError, RunError, SavedFileError
from hopwalk.evaluation import Evaluation
from hopwalk.optimizers import Optimizer
from hopwalk.run import Run
from hopwalk.training import Watcher
from hopwalk.walker import policy, rollout, runs
from hopwalk.walker import training as walker_training
from hopwalk.walker.decoding import WEIGHTS, blend_name
from hopwalk.walker.runs import MakeWatchers
from hopwalk.walker.steps import Questions
from tests.helpers import FAMILY, dataset_of
from tests.test_training import Recorder, StopAt, Stopped, command, result_of
from tests.villages import ALONE, TINY, VILLAGE, settings_of, village_of


def watching(kind: str, *watchers: Watcher) -> MakeWatchers:
    """Those who watch the training of the scorer or that of the walker."""
    return lambda name, _: watchers if name == kind else ()


def numbers_of(found: Mapping[str, Evaluation]) -> dict[str, dict[str, Any]]:
    """Evaluations as they are written: what has no value is None, which is equal to itself."""
    return {name: evaluation.to_dict() for name, evaluation in found.items()}


def results_of(run: Run) -> list[Any]:
    """All that training gives: of the walker, and of its scorer if it has one."""
    folder = run.path / "scorer"
    return [result_of(run), *([result_of(Run.open(folder))] if folder.exists() else [])]


@pytest.fixture
def checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every evaluation, without the wait for the disk."""
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run with its scorer, not to be changed."""
    return api.train(VILLAGE, settings_of(), out=tmp_path_factory.mktemp("trained") / "run")


@pytest.fixture
def copied(tmp_path: Path, trained: Run) -> Path:
    """A copy of that run, to be changed."""
    return Path(shutil.copytree(trained.path, tmp_path / "copied"))


@pytest.fixture(scope="module", params=["sum", "sampled"])
def taught(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run that had no scorer, by either gradient."""
    learnt = {"walker.estimator": request.param, "walker.rollouts": 10, "walker.epochs": 12, "walker.hidden_dropout": 0.0}
    return api.train(VILLAGE, settings_of(ALONE | learnt), out=tmp_path_factory.mktemp(request.param) / "run")


# Learning


def test_a_rule_is_learnt(taught: Run):
    untrained = runs.build_walker(VILLAGE, taught.settings)
    untrained.policy.eval()
    before = runs.evaluate_walker(replace(api.load(taught.path), walker=untrained), "test")
    assert before["paths"].tails.mrr < 0.5
    assert api.evaluate(taught.path).tails.mrr > 0.9
    assert api.evaluate(taught.path, "valid").tails.mrr > 0.9
    rewards = [record["reward"] for record in taught.history]
    assert rewards[-1] > 1.5 * rewards[0]


def test_the_best_path_is_the_rule(taught: Run):
    walker, asked = api.load(taught.path), VILLAGE.test
    found = walker.decoder.reached(Questions(*(torch.tensor(ids.tolist()) for ids in (asked.heads, asked.relations))))
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
    assert (walker.opinions, walker.blend_weight, taught.about["blend_weight"]) == (None, None, None)
    assert [*api.evaluate_walker(taught.path)] == ["paths"]
    card = (taught.path / "card.md").read_text()
    assert "| scorer | none |" in card
    assert "the paper's: the scorer has no part in the walk" in card
    assert "1 for the answer, else 0" in card
    assert "blend" not in card


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


# Stopped and gone on

CASES: dict[str, dict[str, Any]] = {
    "guided": {"walker.history_layers": 2},
    "sampled, with decay and a baseline": {
        "walker.estimator": "sampled",
        "walker.baseline": "average",
        "walker.entropy_decay": 0.9,
        "walker.action_dropout_decay": 0.5,
        "walker.learning_rate_decay": 0.8,
        "walker.guidance": 0.0,
    },
    "sparse rows": {**ALONE, "walker.gradient_clip": 0.1, "walker.evaluate_every": 2},
}


@pytest.mark.parametrize("case", CASES)
def test_stopped_anywhere_the_result_is_the_same(tmp_path: Path, checkpoints: None, monkeypatch: pytest.MonkeyPatch, case: str):
    if case == "sparse rows":
        monkeypatch.setattr(policy, "MOST_DENSE_ENTITIES", 10)
    settings = settings_of(CASES[case])
    whole = api.train(VILLAGE, settings, out=tmp_path / "whole")
    expected, every = results_of(whole), settings.walker.evaluate_every
    counted = [record["unique_paths"] for record in whole.history]
    assert counted == sorted({*counted})  # ever more, so a count that began anew would show
    for epoch, batch in ((1, 2), (2, 0), (3, 1), (4, 4), (4, 0)):  # 0: evaluated, but not saved yet
        folder = tmp_path / f"{epoch}-{batch}"
        with pytest.raises(Stopped):
            api.train(VILLAGE, settings, out=folder, make_watchers=watching("walker", StopAt(epoch, batch)))
        assert Run.open(folder).about["status"] == "training"
        recorder = Recorder()
        run = api.train(VILLAGE, settings, out=folder, resume=True, make_watchers=watching("walker", recorder))
        assert recorder.batches[0] == ((epoch - 1) // every * every + 1, 1)  # it did go on, and not from the beginning
        assert results_of(run) == expected
        assert not run.checkpoint_path.exists()


def test_stopped_again_and_again(tmp_path: Path, checkpoints: None, trained: Run, monkeypatch: pytest.MonkeyPatch):
    """In the scorer's training, between the two, in the walker's, and before the blend is chosen."""
    settings, out = trained.settings, tmp_path / "run"

    def stop(*_: Any) -> Any:
        raise Stopped

    for watchers in (watching("scorer", StopAt(3, 1)), stop, watching("walker", StopAt(3, 1))):
        with pytest.raises(Stopped):
            api.train(VILLAGE, settings, out=out, resume=True, make_watchers=watchers)
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(runs, "_blend_chosen", stop)
        api.train(VILLAGE, settings, out=out, resume=True)
    assert Run.open(out).about["status"] == "training"
    run = api.train(VILLAGE, settings, out=out, resume=True)
    assert results_of(run) == results_of(trained)


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_ctrl_c_leaves_a_usable_run(
    tmp_path: Path, trained: Run, checkpoints: None, monkeypatch: pytest.MonkeyPatch, has_checkpoint: bool
):
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 0.0 if has_checkpoint else 1000.0)
    settings, out = trained.settings, tmp_path / "run"
    stop = watching("walker", StopAt(3, 2, KeyboardInterrupt))
    run = api.train(VILLAGE, settings, out=out, make_watchers=stop)
    about = run.about
    assert (about["status"], about["epochs"]) == ("interrupted", 2)
    assert about["valid_mrr"] == max(record["valid_mrr"] for record in run.history)
    assert about["blend_weight"] in WEIGHTS
    assert api.evaluate(out, "valid").tails.mrr == about["valid_mrr"]
    assert "interrupted after 2 epochs" in (out / "card.md").read_text()
    recorder = Recorder()
    run = api.train(VILLAGE, settings, out=out, resume=True, make_watchers=watching("walker", recorder))
    assert recorder.batches[0] == (3 if has_checkpoint else 1, 1)
    assert results_of(run) == results_of(trained)


def test_ctrl_c_soon_after_going_on_keeps_what_there_was(tmp_path: Path, trained: Run):
    settings, out = trained.settings, tmp_path / "run"
    for epoch in (3, 1):
        stop = watching("walker", StopAt(epoch, 1, KeyboardInterrupt))
        run = api.train(VILLAGE, settings, out=out, resume=True, make_watchers=stop)
        assert (run.about["status"], run.about["epochs"]) == ("interrupted", 2)
    assert results_of(api.train(VILLAGE, settings, out=out, resume=True)) == results_of(trained)


def test_ctrl_c_before_the_first_evaluation(tmp_path: Path, trained: Run):
    stop = watching("walker", StopAt(1, 1, KeyboardInterrupt))
    run = api.train(VILLAGE, trained.settings, out=tmp_path / "run", make_watchers=stop)
    assert (run.about["status"], run.about["epochs"], run.about["valid_mrr"]) == ("interrupted", 0, None)
    assert api.evaluate(run.path).tails.num_questions == len(VILLAGE.test)
    run = api.train(VILLAGE, trained.settings, out=run.path, resume=True)
    assert results_of(run) == results_of(trained)


def test_ctrl_c_while_the_scorer_is_trained(tmp_path: Path, trained: Run):
    stop = watching("scorer", StopAt(3, 1, KeyboardInterrupt))
    run = api.train(VILLAGE, trained.settings, out=tmp_path / "run", make_watchers=stop)
    assert run.about["status"] == Run.open(run.path / "scorer").about["status"] == "interrupted"
    api.evaluate(run.path / "scorer")
    with pytest.raises(RunError, match=r"the walker is not trained yet.* --resume"):
        api.load(run.path)
    recorder = Recorder()
    run = api.train(VILLAGE, trained.settings, out=run.path, resume=True, make_watchers=watching("walker", recorder))
    assert recorder.records == run.history
    assert results_of(run) == results_of(trained)


def test_resuming_what_is_finished_does_nothing(copied: Path, trained: Run):
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in copied.rglob("*.*")}
    recorder = Recorder()
    api.train(VILLAGE, trained.settings, out=copied, resume=True, make_watchers=lambda *_: [recorder])
    assert recorder.batches == []
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in copied.rglob("*.*")} == before


# A process that saves after every epoch, and waits in the third of one of its trainings for what may come.
PROCESS = """
import time
from hopwalk import training
from hopwalk.cli import main, train

class Waiting:
    def on_batch(self, epoch, *_):
        time.sleep(60 if epoch == 3 else 0)

    def on_evaluation(self, record):
        pass

training.SECONDS_BETWEEN_CHECKPOINTS = 0
train.TrainingBars.begin = lambda self, name, num_epochs: [Waiting()] if name == {name!r} else []
main.run()
"""


def test_killed_and_gone_on(village: Path, capsys: pytest.CaptureFixture[str]):
    """Real processes: `kill -9` while the scorer is trained, then while the walker is, then to the end."""
    arguments = ["train", "village", *SET, "--out"]
    for name, folder in (("scorer", Path("stopped/scorer")), ("walker", Path("stopped"))):
        process = subprocess.Popen(
            [sys.executable, "-c", PROCESS.format(name=name), *arguments, "stopped", "--resume"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            while process.poll() is None and not (folder / "checkpoint.safetensors").exists():
                time.sleep(0.02)
        finally:
            process.kill()
            _, stderr = process.communicate()
        assert process.returncode == -signal.SIGKILL, stderr
        assert Run.open(folder).about["status"] == "training"
        assert (Path("stopped") / "weights.safetensors").exists() == (name == "walker")
    assert "finished after 4 epochs" in command(capsys, *arguments, "stopped", "--resume").out
    assert "finished after 4 epochs" in command(capsys, *arguments, "whole").out
    assert results_of(Run.open("stopped")) == results_of(Run.open("whole"))


# What a run holds


def test_a_run_folder(trained: Run):
    own = {"card.md", "dataset.safetensors", "history.jsonl", "run.json", "settings.toml", "weights.safetensors"}
    assert own | {"scorer"} <= {path.name for path in trained.path.iterdir()}
    assert own <= {path.name for path in (trained.path / "scorer").iterdir()}
    assert not [*trained.path.rglob("checkpoint*"), *trained.path.rglob(".*")]  # nothing half written or left over
    about = trained.about
    assert (about["kind"], about["status"], about["epochs"]) == ("walker", "finished", 4)
    assert load_settings(trained.path / "settings.toml") == settings_of()
    card = (trained.path / "card.md").read_text()
    assert "guided: the scorer's opinion of an entity counts on the last hop (weight 0.3 at first, then learnt)" in card
    assert "shaped by the scorer" in card
    assert "complex, in the folder `scorer`" in card
    assert f"| weight of paths in the blend | {about['blend_weight']:g}, chosen on dev |" in card
    assert f"{100 * about['valid_mrr']:.2f}" in card


def test_history_has_what_the_figures_of_the_paper_need(trained: Run):
    assert [record["epoch"] for record in trained.history] == [1, 2, 3, 4]
    for record in trained.history:
        shares = [record[name] for name in ("reward", "hits", "false_negative_hits", "valid_mrr", "valid_unreached")]
        assert all(0 <= share <= 1 for share in shares)
        assert record["reward"] > record["hits"] > record["false_negative_hits"] > 0  # other ends are rewarded a little
        assert record["entropy"] > 0
        assert record["guidance"] != 0.3  # learnt
        assert record["valid_num_questions"] == len(VILLAGE.valid)
    # No more paths than walks: 5 for each question in each epoch.
    assert 0 < trained.history[0]["unique_paths"] <= 1.02 * 5 * len(VILLAGE.train)


def test_a_watcher_is_told_of_both_trainings(tmp_path: Path):
    told: dict[str, tuple[int, Recorder]] = {}

    def make(name: str, num_epochs: int) -> list[Recorder]:
        told[name] = num_epochs, Recorder()
        return [told[name][1]]

    run = api.train(VILLAGE, settings_of({"walker.epochs": 2}), out=tmp_path / "run", make_watchers=make)
    assert {name: num_epochs for name, (num_epochs, _) in told.items()} == {"scorer": 4, "walker": 2}
    assert told["walker"][1].records == run.history
    num_batches = -(-len(VILLAGE.train) // 64)
    assert told["walker"][1].batches == [(epoch, batch + 1) for epoch in (1, 2) for batch in range(num_batches)]


def test_a_folder_can_be_copied(copied: Path, trained: Run):
    for path in copied.rglob("*.*"):
        if path.suffix in (".json", ".toml", ".md", ".jsonl"):
            assert str(trained.path.parent) not in path.read_text()  # of this machine
    moved = copied.rename(copied.with_name("elsewhere"))
    assert numbers_of(api.evaluate_walker(moved)) == numbers_of(api.evaluate_walker(trained.path))
    heads, relations = VILLAGE.test.heads, VILLAGE.test.relations
    here, there = (api.load(path).decoder.path_scores(heads, relations) for path in (trained.path, moved))
    assert np.array_equal(here, there)


def test_what_evaluate_writes(copied: Path, trained: Run):
    found = api.evaluate_walker(copied)
    written = json.loads((copied / "evaluation-test.json").read_text())
    assert written["blend_weight"] == trained.about["blend_weight"]
    assert {*written} == {"paths", "scorer", "blend", "blend_weight"}
    for name, numbers in numbers_of(found).items():
        assert written[name] == json.loads(json.dumps(numbers))
        assert (numbers["tails"]["num_questions"], numbers["heads"]["num_questions"]) == (len(VILLAGE.test), 0)
    assert api.evaluate(copied).to_dict() == found["paths"].to_dict()
    assert json.loads((copied / "evaluation-test.json").read_text()) == written
    both = api.evaluate_walker(copied, directions="both")["paths"]
    assert (both.tails, both.heads.num_questions) == (found["paths"].tails, len(VILLAGE.test))
    api.evaluate(copied, "valid", complete_filter=True)
    assert (copied / "evaluation-valid-complete.json").exists()


def test_the_scorer_alone_ranks_as_its_own_run_does(trained: Run):
    of_walker, of_scorer = api.evaluate_walker(trained.path)["scorer"], api.evaluate(trained.path / "scorer")
    assert of_walker.tails.mrr == pytest.approx(of_scorer.tails.mrr, abs=1e-4)


def test_the_blend_is_the_best_on_dev(trained: Run):
    about, found = trained.about, api.evaluate_walker(trained.path, "valid")
    by_weight = {weight: about["valid_mrr_by"][blend_name(weight)] for weight in WEIGHTS}
    assert by_weight[about["blend_weight"]] == max(by_weight.values()) == found["blend"].tails.mrr
    assert about["valid_mrr_by"]["paths"] == about["valid_mrr"] == found["paths"].tails.mrr
    assert about["valid_mrr_by"]["scorer"] == found["scorer"].tails.mrr == by_weight[0]


def test_a_blend_without_weight_is_the_scorer(trained: Run):
    walker = api.load(trained.path)
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


def test_without_dev_questions_the_last_epoch_counts(tmp_path: Path):
    run = api.train(dataset_of(FAMILY), settings_of({"walker.patience": 1}), out=tmp_path / "run")
    about = run.about
    assert (about["status"], about["best_epoch"], about["valid_mrr"], about["blend_weight"]) == ("finished", 4, None, 1.0)
    assert "no dev questions" in (run.path / "card.md").read_text()
    with pytest.raises(DataError, match="has no test questions"):
        api.evaluate(run.path)


def test_a_part_of_dev_can_be_asked(tmp_path: Path):
    run = api.train(VILLAGE, settings_of(ALONE | {"walker.dev_questions": 3, "walker.epochs": 1}), out=tmp_path / "run")
    assert run.history[0]["valid_num_questions"] == 3
    assert api.evaluate(run.path, "valid").tails.num_questions == len(VILLAGE.valid)


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


# Settings


def test_dev_facts_can_be_learnt(tmp_path: Path):
    settings = settings_of({"walker.learn_valid": True, "walker.epochs": 2})
    recorder = Recorder()
    run = api.train(VILLAGE, settings, out=tmp_path / "run", make_watchers=watching("walker", recorder))
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
    settings = settings_of({"walker.learn_valid": True, "walker.epochs": 2})
    run = api.train(VILLAGE, settings, out=tmp_path / "run")
    assert run.about["blend_weight"] > 0
    assert "chosen on dev" not in (run.path / "card.md").read_text()
    with pytest.raises(DataError, match="learnt the dev facts"):
        api.evaluate(run.path, "valid")


def complete_graph_of(num_entities: int, num_relations: int) -> Dataset:
    names = [f"{number:02}" for number in range(num_entities)]
    links = [f"r{number}" for number in range(num_relations)]
    return dataset_of((one, link, other) for one in names for other in names for link in links if one != other)


def test_settings_suit_the_density_of_a_graph_of_ones_own():
    sparse, dense, densest = dataset_of(FAMILY), complete_graph_of(16, 1), complete_graph_of(16, 3)
    chosen = [api.settings_for("mine.csv", dataset=dataset) for dataset in (sparse, dense, densest)]
    assert [settings.walker.action_dropout for settings in chosen] == [0.1, 0.5, 0.9]
    assert [settings.walk.hops for settings in chosen] == [3, 2, 2]
    assert [settings.scorer.candidates for settings in chosen] == [0, 0, 0]
    assert suited_settings(np.full(30_000, 5))["scorer.candidates"] == 4096
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
        learner = walker_training.WalkerLearner(runs.build_walker(VILLAGE, settings), VILLAGE, settings, None)
        losses.append(learner.learn(1, torch.Generator().manual_seed(0), lambda *_: None)["loss"])
        gradients.append({name: value.grad for name, value in learner.model.named_parameters() if value.grad is not None})
        sizes.append(api.forecast(VILLAGE, settings).questions_at_once)
    assert sizes[1] < len(VILLAGE.train) <= sizes[0]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert gradients[0].keys() == gradients[1].keys() > {"relations", "entities"}
    for name, gradient in gradients[0].items():
        assert float((gradient - gradients[1][name]).norm()) <= 1e-3 * float(gradient.norm()), name


def test_training_in_parts_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sizes: list[int] = []

    def roll_out(walker: Any, questions: Questions, **more: Any) -> Any:
        sizes.append(len(questions))
        return rollout.roll_out(walker, questions, **more)

    monkeypatch.setattr(walker_training, "roll_out", roll_out)
    few_steps = {"walker.batch_size": 256, "walker.rollouts": 80, "walker.learning_rate": 0.05, "walker.epochs": 8}
    settings = settings_of(ALONE | few_steps | {"walker.memory_mb": 64})
    run = api.train(VILLAGE, settings, out=tmp_path / "run")
    at_once = api.forecast(VILLAGE, settings).questions_at_once
    assert max(sizes) <= at_once < 128
    assert sum(sizes) == 8 * len(VILLAGE.train)
    assert api.evaluate(run.path).tails.mrr > 0.8


def test_the_forecast_shrinks_with_what_is_asked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hopwalk.walker.forecast.product_rate", lambda: 1e9)  # of a machine that is always the same
    usual: dict[str, Any] = {"walker.rollouts": 100, "walker.batch_size": 512}
    most = api.forecast(VILLAGE, settings_of(usual))
    assert most.questions_at_once == 512
    less_memory = api.forecast(VILLAGE, settings_of(usual | {"walker.memory_mb": 64}))
    assert less_memory.questions_at_once < 512
    assert less_memory.memory_bytes < min(most.memory_bytes, 80 * 2**20)
    assert less_memory.seconds_of_epoch == most.seconds_of_epoch
    for changes in ({"walker.rollouts": 50}, {"walk.hops": 1}, {"walker.dimension": 6}, {"walker.history_dimension": 6}):
        less = api.forecast(VILLAGE, settings_of(usual | changes))
        assert less.memory_bytes < most.memory_bytes
        assert less.seconds_of_epoch < most.seconds_of_epoch
    smaller = api.forecast(village_of(8), settings_of(usual))
    assert smaller.seconds_of_epoch < 0.7 * most.seconds_of_epoch
    assert api.forecast(VILLAGE, settings_of(usual | ALONE)).memory_bytes < most.memory_bytes  # no scores of all entities


# The command line

# What has an option of its own stands in it: `--set` wins over options, and of options the last one.
OPTIONS = {"walker.epochs": "--epochs", "walker.action_dropout": "--action-dropout", "walker.guidance": "--guidance"}
SET = [
    part
    for name, value in TINY.items()
    for part in ([OPTIONS[name], str(value)] if name in OPTIONS else ["--set", f"{name}={value}"])
]
SHORT = ["--epochs", "1", "--set", "scorer.epochs=1"]


@pytest.fixture
def village(in_folder: Path) -> Path:
    """The village as a folder of files, in the current folder."""
    hopwalk.write_folder(VILLAGE, "village")
    return in_folder


def test_train_and_evaluate(village: Path, capsys: pytest.CaptureFixture[str]):
    printed = command(capsys, "train", "village", *SET)
    assert "runs/village: finished after 4 epochs; dev MRR" in printed.out
    assert "`hopwalk evaluate runs/village` ranks the test answers." in printed.out
    forecast = printed.err.splitlines()[0]  # before anything is trained
    assert forecast.startswith("The walker needs about ")
    assert forecast.endswith("for each of at most 4 epochs on this machine, dev evaluation aside.")
    assert "in parts" not in forecast

    tables = command(capsys, "evaluate", "runs/village").out
    for said in ("paths alone (the paper's)", "scorer alone", "blend of both", "not reached by a path; they count 0"):
        assert said in tables
    written = json.loads(Path("runs/village/evaluation-test.json").read_text())
    found = json.loads(command(capsys, "evaluate", "runs/village", "--json").out)
    assert all(found[name] == written[name] for name in ("paths", "scorer", "blend"))
    assert found["paths"]["heads"]["num_questions"] == 0
    found = json.loads(command(capsys, "evaluate", "runs/village", "--both", "--json").out)
    assert found["paths"]["heads"]["num_questions"] == len(VILLAGE.test)
    assert "was finished already" in command(capsys, "train", "village", *SET, "--resume").out


def test_the_forecast_tells_of_parts(village: Path, capsys: pytest.CaptureFixture[str]):
    parts = ["--set", "walker.memory_mb=64", "--set", "walker.rollouts=200", "--no-reward-shaping", "--guidance", "0"]
    told = command(capsys, "train", "village", *SET, *SHORT, *parts, "--set", "walker.batch_size=512").err
    assert ", in parts of " in told.splitlines()[0]


MODERN = load_settings().walker


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {"recipe": "modern", "estimator": "sum", "guidance": MODERN.guidance, "reward_shaping": True, "seed": 0}),
        (
            ["--walker", "minerva"],
            {"recipe": "minerva", "estimator": "sampled", "guidance": 0, "reward_shaping": False, "baseline": "average"}
            | {"uses_entities": False, "rollouts": 20, "gradient_clip": 5},
        ),
        (
            ["--walker", "paper"],
            {"recipe": "paper", "estimator": "sampled", "guidance": 0, "reward_shaping": True, "baseline": "none"}
            | {"uses_entities": True, "rollouts": 20},
        ),
        (["--no-reward-shaping", "--guidance", "0"], {"recipe": "modern", "guidance": 0, "reward_shaping": False}),
        (["--no-reward-shaping"], {"guidance": MODERN.guidance, "reward_shaping": False}),
        (["--guidance", "0.7"], {"guidance": 0.7, "reward_shaping": True}),
        (["--action-dropout", "0.25", "--seed", "7"], {"action_dropout": 0.25, "seed": 7}),
        (["--walker", "minerva", "--reward-shaping"], {"recipe": "minerva", "reward_shaping": True}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options(village: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: dict[str, Any]):
    small = [f"walker.{name}=8" for name in ("dimension", "history_dimension")] + ["scorer.dimension=8", "walk.hops=2"]
    command(capsys, "train", "village", *(part for name in small for part in ("--set", name)), *SHORT, *arguments)
    run = Run.open("runs/village")
    walker = run.settings.walker.model_dump()
    assert {name: walker[name] for name in expected} == expected
    needs_scorer = bool(walker["reward_shaping"] or walker["guidance"])
    assert (run.path / "scorer").exists() == needs_scorer == ("guided" in (run.path / "card.md").read_text() or needs_scorer)
    assert run.settings.scorer.seed == walker["seed"]
    assert [*api.evaluate_walker(run.path)] == (["paths", "scorer", "blend"] if needs_scorer else ["paths"])


def test_a_scorer_can_be_given(village: Path, trained: Run, capsys: pytest.CaptureFixture[str]):
    command(capsys, "train", "village", *SET, "--reward", str(trained.path / "scorer"), "--out", "run")
    assert result_of(Run.open("run"))[:2] == result_of(trained)[:2]  # but for the name of the data set
    assert Run.open("run/scorer").about == Run.open(trained.path / "scorer").about  # copied: the time it took is the same
    command(capsys, "train", "village", *SET, *SHORT, "--reward", "distmult", "--out", "other")
    assert Run.open("other/scorer").settings.scorer.model == "distmult"


def test_the_card_names_the_scorer_that_was_given(tmp_path: Path):
    scorer = api.train_scorer(VILLAGE, settings_of({"scorer.model": "distmult"}), out=tmp_path / "scorer")
    run = api.train(VILLAGE, settings_of({"walker.epochs": 1}), out=tmp_path / "run", scorer=scorer.path)
    assert "distmult, in the folder `scorer`" in (run.path / "card.md").read_text()


def test_an_ensemble_can_be_given(tmp_path: Path, trained: Run):
    members = [trained.path / "scorer", api.train_scorer(VILLAGE, settings_of({"scorer.seed": 1}), out=tmp_path / "1").path]
    both = api.combine_scorers(members, out=tmp_path / "both")
    run = api.train(VILLAGE, settings_of({"walker.epochs": 1}), out=tmp_path / "run", scorer=both.path)
    shutil.rmtree(tmp_path / "both")
    assert api.evaluate_walker(run.path)["scorer"].tails.num_questions == len(VILLAGE.test)


def test_ctrl_c_at_the_command_line(village: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    for name in ("walker", "scorer"):
        with monkeypatch.context() as patch:
            stop = watching(name, StopAt(2, 1, KeyboardInterrupt))
            patch.setattr(cli_train.TrainingBars, "begin", lambda _, *of, stop=stop: stop(*of))
            printed = command(capsys, "train", "village", *SET, "--out", name).out
        assert f"{name}: interrupted after {1 if name == 'walker' else 0} epochs" in printed
        assert "Go on with the same command and --resume." in printed
        assert "finished" not in printed
    assert "error: scorer: the walker is not trained yet" in command(capsys, "evaluate", "scorer", code=1).err
    command(capsys, "evaluate", "walker")
    command(capsys, "evaluate", "scorer/scorer")


def test_evaluation_is_not_offered_before_there_is_a_walker(
    village: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    stop = watching("scorer", StopAt(1, 1, KeyboardInterrupt))
    monkeypatch.setattr(cli_train.TrainingBars, "begin", lambda _, *of: stop(*of))
    assert "hopwalk evaluate" not in command(capsys, "train", "village", *SET, "--out", "run").out


def test_json_is_what_is_written(copied: Path, capsys: pytest.CaptureFixture[str]):
    found = json.loads(command(capsys, "evaluate", str(copied), "--json").out)
    assert found == json.loads((copied / "evaluation-test.json").read_text())


# What must be refused


def mistake(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The only error that a command tells, with its remedy."""
    told = command(capsys, *arguments, code=1)
    assert told.out == ""
    lines = told.err.strip().splitlines()
    (place,) = (row for row, line in enumerate(lines) if line.startswith("error: "))
    assert len(lines) - place <= 2  # what is wrong, and what to do
    return " ".join(line.strip() for line in lines[place:])


MISTAKES: dict[str, tuple[list[str], str]] = {
    "unknown recipe": (["--walker", "old"], "walker.recipe = 'old' does not fit"),
    "unknown scorer": (["--reward", "complx"], "there is no scorer 'complx' Did you mean 'complex'?"),
    "unknown folder": (["--reward", "runs/lost"], "there is no scorer 'runs/lost'"),
    "all edges dropped": (["--action-dropout", "1"], "walker.action_dropout = 1.0 does not fit"),
    "guidance below nothing": (["--guidance", "-1"], "walker.guidance = -1.0 does not fit"),
    "no epochs": (["--epochs", "0"], "walker.epochs = 0 does not fit"),
    "little memory": (["--set", "walker.memory_mb=1"], "walker.memory_mb = 1 does not fit"),
    "unknown setting": (["--set", "walker.dropout=1"], "there is no setting 'walker.dropout'"),
    "data in the folder": (["--out", "village"], "village: this is no empty folder"),
    "scorer of other data": (["--reward", "other"], "other: the run was trained on other data"),
    "a walker as scorer": (["--reward", "walker"], "this is a run of kind 'walker', not a scorer"),
    "used folder": (["--out", "walker"], "walker: there is a run in this folder already Go on with it with --resume"),
    "another seed": (["--out", "walker", "--resume", "--seed", "1"], "has walker.seed = 0, not 1: it cannot go on"),
    "another beam": (["--out", "walker", "--resume", "--set", "walk.beam=8"], "has walk.beam = 32, not 8"),
    "another graph": (["--out", "walker", "--resume", "--set", "graph.fan_out=8"], "has graph.fan_out = 400, not 8"),
    "another scorer": (["--out", "walker", "--resume", "--reward", "conve"], "has scorer.model = 'complex', not 'conve'"),
    "more epochs": (["--out", "walker", "--resume", "--epochs", "9"], "has walker.epochs = 4, not 9"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_get_one_clear_message(
    village: Path, trained: Run, capsys: pytest.CaptureFixture[str], name: str, other_scorer: Path
):
    arguments, message = MISTAKES[name]
    shutil.copytree(trained.path, "walker")
    shutil.copytree(other_scorer, "other")
    before = results_of(Run.open("walker"))
    assert message in mistake(capsys, "train", "village", *SET, *arguments)
    assert not Path("runs").exists()  # nothing is begun that would stand in the way of the next try
    assert results_of(Run.open("walker")) == before


@pytest.fixture(scope="module")
def other_scorer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scorer of other data."""
    return api.train_scorer(village_of(15), settings_of(), out=tmp_path_factory.mktemp("other") / "run").path


@pytest.mark.parametrize("values", [{}, ALONE, {"walker.estimator": "sampled"}], ids=["guided", "alone", "sampled"])
def test_divergence(tmp_path: Path, trained: Run, values: dict[str, Any]):
    settings = settings_of(values | {"walker.learning_rate": 1e30})
    with pytest.raises(HopwalkError, match=r"diverged: set a smaller walker\.learning_rate, or walker\.gradient_clip"):
        api.train(VILLAGE, settings, out=tmp_path / "run", scorer=trained.path / "scorer")


def test_divergence_at_the_command_line(village: Path, capsys: pytest.CaptureFixture[str]):
    assert "diverged" in mistake(capsys, "train", "village", *SET, "--set", "walker.learning_rate=1e30")


def test_no_training_questions(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    api.prepare(replace(VILLAGE, train=VILLAGE.train[:0]), "facts")
    told = mistake(capsys, "train", "facts", *SET)
    assert "has no training questions" in told


def test_no_training_questions_are_told_before_a_scorer_is_trained(tmp_path: Path):
    watched = Recorder()
    with pytest.raises(DataError, match="has no training questions"):
        api.train(
            replace(VILLAGE, train=VILLAGE.train[:0]), settings_of(), out=tmp_path / "run", make_watchers=lambda *_: [watched]
        )
    assert watched.batches == []
    assert not (tmp_path / "run").exists()


def test_tensorboard_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    with pytest.raises(HopwalkError, match="--tensorboard needs the package tensorboard, which is not installed"):
        api.train(VILLAGE, settings_of(ALONE), out=tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()


def test_no_going_on_with_other_data(trained: Run):
    before = results_of(trained)
    for other in (village_of(15), replace(VILLAGE, valid=VILLAGE.test, test=VILLAGE.valid)):
        with pytest.raises(RunError, match="the run was trained on other data"):
            api.train(other, trained.settings, out=trained.path, resume=True)
    assert results_of(trained) == before


def test_no_going_on_with_a_run_of_another_kind(copied: Path, trained: Run):
    with pytest.raises(RunError, match="a run of kind 'scorer', not a walker"):
        api.train(VILLAGE, trained.settings, out=copied / "scorer", resume=True)
    with pytest.raises(RunError, match="a run of kind 'walker', not a scorer"):
        api.train_scorer(VILLAGE, trained.settings, out=copied, resume=True)


def test_going_on_with_a_scorer_given_later(tmp_path: Path, trained: Run, checkpoints: None):
    """The run has begun to train a scorer of its own: it must not be taken half trained, nor for the one that is given."""
    settings, out = settings_of({"scorer.seed": 1}), tmp_path / "run"
    with pytest.raises(Stopped):
        api.train(VILLAGE, settings, out=out, make_watchers=watching("scorer", StopAt(2, 1)))
    try:
        run = api.train(VILLAGE, settings, out=out, scorer=trained.path / "scorer", resume=True)
    except HopwalkError:
        return
    assert Run.open(run.path / "scorer").about["status"] == "finished"


@pytest.mark.parametrize("is_given", [False, True])
def test_killed_while_the_folder_of_the_scorer_is_made(
    tmp_path: Path, trained: Run, monkeypatch: pytest.MonkeyPatch, is_given: bool
):
    """Were it not gone on with, nothing would help but to throw the run away."""

    def copy_part(source: Path, folder: Path, **_: Any) -> None:
        folder.mkdir(exist_ok=True)
        shutil.copy(source / "settings.toml", folder)
        (folder / "weights.safetensors").write_bytes(b"half")
        raise Stopped

    def write_part(settings: Settings) -> str:
        if (tmp_path / "run" / "scorer").exists():
            raise Stopped
        return settings_toml(settings)

    settings, given = trained.settings, trained.path / "scorer" if is_given else None
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(shutil, "copytree", copy_part)
        patch.setattr("hopwalk.run.settings_toml", write_part)
        api.train(VILLAGE, settings, out=tmp_path / "run", scorer=given)
    run = api.train(VILLAGE, settings, out=tmp_path / "run", scorer=given, resume=True)
    assert results_of(run)[0] == results_of(trained)[0]


def test_a_scorer_is_no_walker(trained: Run):
    with pytest.raises(RunError, match=r"this is a run of kind 'scorer', not a walker\. `hopwalk train DATA` without --scorer"):
        api.load(trained.path / "scorer")
    with pytest.raises(RunError, match="this is a run of kind 'walker', not a scorer"):
        api.load_scorer(trained.path)


def _flip(name: str) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        content = bytearray((run / name).read_bytes())
        content[-100] ^= 1
        (run / name).write_bytes(content)

    return damage


def _cut(name: str) -> Callable[[Path], None]:
    return lambda run: os.truncate(run / name, 300)


def _say(**values: Any) -> Callable[[Path], None]:
    return lambda run: Run(run).write_about(Run(run).about | values)


def _weights_of_the_scorer(run: Path) -> None:
    shutil.copy(run / "scorer" / "weights.safetensors", run / "weights.safetensors")


def _weights_of_another_size(run: Path) -> None:
    small = runs.build_walker(VILLAGE, settings_of({"walker.dimension": 5})).policy
    Run(run).save_weights(training.arrays_of(small), "walker")


def _weights_that_are_no_numbers(run: Path) -> None:
    file = Run(run).load_weights()
    Run(run).save_weights({name: file.array(name) * np.float32(np.nan) for name in file.names}, "walker")


def _remove(name: str) -> Callable[[Path], None]:
    return lambda run: shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()


def _scorer_of_other_data(run: Path) -> None:
    about = Run(run / "scorer").about
    Run(run / "scorer").write_about(about | {"dataset": about["dataset"] | {"fingerprint": "0" * 64}})


DAMAGES: dict[str, tuple[Callable[[Path], None], type[HopwalkError], str]] = {
    "a flipped bit": (_flip("weights.safetensors"), SavedFileError, "its content does not fit its checksum"),
    "cut off": (_cut("weights.safetensors"), SavedFileError, "this is not a whole hopwalk file"),
    "not trained yet": (_remove("weights.safetensors"), RunError, "the walker is not trained yet"),
    "weights of the scorer": (_weights_of_the_scorer, SavedFileError, "it does not hold the weights of walker"),
    "weights of another size": (_weights_of_another_size, SavedFileError, "has another shape than the model's"),
    "weights that are no numbers": (_weights_that_are_no_numbers, SavedFileError, "has values that are no numbers"),
    "dataset, a flipped bit": (_flip("dataset.safetensors"), SavedFileError, "its content does not fit its checksum"),
    "no scorer": (_remove("scorer"), RunError, "there is no such folder"),
    "a scorer cut off": (_cut("scorer/weights.safetensors"), SavedFileError, "this is not a whole hopwalk file"),
    "a scorer of other data": (_scorer_of_other_data, RunError, "the run was trained on other data"),
    "blend a text": (_say(blend_weight="half"), RunError, "the weight of the blend cannot be read"),
    "blend nothing": (_say(blend_weight=None), RunError, "the weight of the blend cannot be read"),
    "another kind": (_say(kind="runner"), HopwalkError, "a run of kind 'runner'"),
    "settings of the future": (
        lambda run: (run / "settings.toml").write_text("[walker]\nwings = 2\n"),  # type: ignore[dict-item]
        RunError,
        "there is no setting",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_told(copied: Path, capsys: pytest.CaptureFixture[str], name: str):
    damage, error, message = DAMAGES[name]
    damage(copied)
    with pytest.raises(error, match=message) as raised:
        api.load(copied)
    assert str(copied) in str(raised.value)
    assert message in mistake(capsys, "evaluate", str(copied))


@pytest.mark.parametrize(
    "damage", [_flip("checkpoint.safetensors"), _cut("checkpoint.safetensors"), _flip("weights.safetensors")]
)
def test_a_damaged_checkpoint_is_not_gone_on_with(
    tmp_path: Path, trained: Run, checkpoints: None, damage: Callable[[Path], None]
):
    settings, scorer = settings_of({"walker.epochs": 2}), trained.path / "scorer"
    with pytest.raises(Stopped):
        api.train(VILLAGE, settings, out=tmp_path / "run", scorer=scorer, make_watchers=watching("walker", StopAt(2, 1)))
    damage(tmp_path / "run")
    with pytest.raises(SavedFileError):
        api.train(VILLAGE, settings, out=tmp_path / "run", scorer=scorer, resume=True)


def test_contradicting_options(village: Path, trained: Run, capsys: pytest.CaptureFixture[str]):
    """Of two things that are said, neither is left out in silence."""
    assert "--reward" in mistake(capsys, "train", "village", *SET, "--scorer", "complex", "--reward", "distmult")
    alone = ["--no-reward-shaping", "--guidance", "0"]
    assert "--reward" in mistake(capsys, "train", "village", *SET, *alone, "--reward", str(trained.path / "scorer"))
    assert not Path("runs").exists()
