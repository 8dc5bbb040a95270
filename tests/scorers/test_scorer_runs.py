"""Recipes, ensembles, cards and TensorBoard: what surrounds the training of a scorer."""

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import hopwalk
from hopwalk.config.loading import load_settings
from hopwalk.data import catalog
from hopwalk.errors import DataError, RunError, SettingsError
from hopwalk.learning.evaluation import evaluate_split
from hopwalk.learning.run import Run
from hopwalk.learning.calibration import Calibration
from hopwalk.scorers.card import reliability_svg
from hopwalk.scorers.ensemble import Ensemble
from hopwalk.scorers.models import MODELS, build_scorer
from tests.support.helpers import dataset_of

FACTS = [(f"person {number}", "knows", f"person {(number + 1) % 20}") for number in range(20)]
FACTS += [(f"person {(number + 1) % 20}", "known by", f"person {number}") for number in range(20)]
CIRCLE = dataset_of(FACTS[:30], FACTS[30:35], FACTS[35:])


def train(out: Path, **values: object) -> Run:
    said = {"model": "complex", "dimension": 8, "epochs": 4} | values
    settings = load_settings(overrides=[f"scorer.{name}={value}" for name, value in said.items()])
    return hopwalk.train_scorer(CIRCLE, settings, out=out)


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("members")
    return [train(folder / model, model=model).path for model in ("distmult", "complex")]


# Recipes


@pytest.mark.parametrize("data", catalog.entries())
@pytest.mark.parametrize("model", MODELS)
def test_the_paper_trains_all_models_alike(data: str, model: str):
    scorer = load_settings(data, overrides=[f"scorer.model={model}", "scorer.recipe=paper"]).scorer
    assert (scorer.loss, scorer.label_smoothing, scorer.optimizer) == ("binary", 0.1, "adam")
    assert (scorer.learning_rate, scorer.batch_size, scorer.dimension, scorer.n3) == (0.003, 512, 200, 0.0)
    assert (scorer.num_sampled_tails, scorer.relation_weight, scorer.initial_scale) == (0, 0.0, 0.0)
    if model == "conve":
        assert (scorer.embedding_height, scorer.num_filters, scorer.kernel_size) == (10, 32, 3)
        assert (scorer.input_dropout, scorer.feature_dropout, scorer.hidden_dropout) == (0.3, 0.2, 0.3)


@pytest.mark.parametrize("data", catalog.entries())
@pytest.mark.parametrize("model", MODELS)
def test_the_modern_recipe_is_there_for_all_sets(data: str, model: str):
    scorer = load_settings(data, overrides=[f"scorer.model={model}"]).scorer
    assert (scorer.recipe, scorer.loss, scorer.optimizer) == ("modern", "softmax", "adam" if model == "conve" else "adagrad")


def test_what_is_said_wins_over_the_recipe(tmp_path: Path):
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


# Ensembles


def test_an_ensemble_is_the_mean_of_log_odds(tmp_path: Path, members: list[Path]):
    run = hopwalk.combine_scorers(members, out=tmp_path / "both")
    both, parts = hopwalk.load_scorer(run.path), [hopwalk.load_scorer(member) for member in members]
    heads, relations, tails = torch.tensor([0, 3, 7]), torch.tensor([0, 1, 3]), torch.tensor([1, 2, 3])
    wanted = torch.stack([part.log_odds_of_all_tails(heads, relations) for part in parts]).mean(dim=0)
    torch.testing.assert_close(both.score_all_tails(heads, relations), wanted)
    torch.testing.assert_close(both.score_triples(heads, relations, tails), wanted.gather(1, tails[:, None]).squeeze(1))
    probabilities = both.probability_of_all_tails(heads, relations)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    assert hopwalk.evaluate(run.path).tails.num_queries == 5


def test_an_ensemble_holds_copies(tmp_path: Path, members: list[Path]):
    copies = [shutil.copytree(member, tmp_path / member.name) for member in members]
    run = hopwalk.combine_scorers(copies, out=tmp_path / "both")
    heads, relations = torch.tensor([0]), torch.tensor([0])
    before = hopwalk.load_scorer(run.path).score_all_tails(heads, relations)
    for copy in copies:
        shutil.rmtree(copy)
    moved = shutil.move(run.path, tmp_path / "elsewhere")
    torch.testing.assert_close(hopwalk.load_scorer(moved).score_all_tails(heads, relations), before)


def test_an_ensemble_of_an_ensemble(tmp_path: Path, members: list[Path]):
    inner = hopwalk.combine_scorers(members, out=tmp_path / "inner")
    outer = hopwalk.combine_scorers([inner.path, members[0]], out=tmp_path / "outer")
    assert hopwalk.load_scorer(outer.path).score_all_tails(torch.tensor([0]), torch.tensor([0])).shape == (1, 20)


def test_what_makes_no_ensemble(tmp_path: Path, members: list[Path]):
    with pytest.raises(SettingsError, match="two runs or more"):
        hopwalk.combine_scorers(members[:1], out=tmp_path / "one")
    with pytest.raises(RunError, match="there is a run in this folder already"):
        hopwalk.combine_scorers(members, out=members[0])
    other = dataset_of([("a", "r", "b"), ("b", "r", "c")])
    run = hopwalk.train_scorer(other, load_settings(overrides=["scorer.epochs=1"]), out=tmp_path / "other")
    with pytest.raises(RunError, match="trained on other data"):
        hopwalk.combine_scorers([*members, run.path], out=tmp_path / "mixed")
    assert not (tmp_path / "mixed").exists()


@pytest.mark.parametrize("names", [None, [], [5], ["../../elsewhere"], ["missing"]])
def test_damaged_ensembles(tmp_path: Path, members: list[Path], names: object):
    run = hopwalk.combine_scorers(members, out=tmp_path / "both")
    run.write_about(run.about | {"members": names})
    with pytest.raises(RunError):
        hopwalk.load_scorer(run.path)


def test_members_of_other_data(tmp_path: Path, members: list[Path]):
    run = hopwalk.combine_scorers(members, out=tmp_path / "both")
    other = dataset_of([("a", "r", "b"), ("b", "r", "c")])
    stranger = hopwalk.train_scorer(other, load_settings(overrides=["scorer.epochs=1"]), out=tmp_path / "other")
    name = run.about["members"][0]
    shutil.rmtree(run.path / "members" / name)
    shutil.copytree(stranger.path, run.path / "members" / name)
    with pytest.raises(RunError, match="trained on other data"):
        hopwalk.load_scorer(run.path)


def test_calibration_makes_scores_comparable():
    """A member that counts a thousand times as high has no more to say than the other."""
    scorers = [
        build_scorer(5, 1, load_settings(overrides=["scorer.dimension=3", f"scorer.seed={seed}"]).scorer) for seed in (0, 1)
    ]
    heads, relations = torch.tensor([0, 1]), torch.tensor([0, 1])
    before = Ensemble(scorers).score_all_tails(heads, relations)
    with torch.no_grad():
        scorers[0].get_parameter("entities").mul_(10.0)
    scorers[0].calibration = Calibration(slope=0.01)
    torch.testing.assert_close(Ensemble(scorers).score_all_tails(heads, relations), before)


# Learning from dev too


def test_dev_facts_can_be_learnt(tmp_path: Path):
    """No rule leads to the dev facts: who knows them has learnt them."""
    odd = [(f"person {number}", "knows", f"person {(7 * number + 3) % 20}") for number in range(0, 20, 4)]
    dataset = dataset_of(FACTS[:20], odd, FACTS[20:25])
    said = ["scorer.dimension=16", "scorer.epochs=60", "scorer.n3=0.0"]
    runs = [
        hopwalk.train_scorer(dataset, load_settings(overrides=[*said, f"scorer.train_on_valid={value}"]), out=tmp_path / value)
        for value in ("true", "false")
    ]
    known, unknown = (evaluate_split(hopwalk.load_scorer(run.path).numpy_scores, dataset, "valid").tails.mrr for run in runs)
    assert known > 0.9 > 0.6 > unknown
    with pytest.raises(DataError, match="has learnt the dev facts"):
        hopwalk.evaluate(runs[0].path, "valid")
    with pytest.raises(RunError, match=r"only one of this run and .* has learnt the dev facts"):
        hopwalk.combine_scorers([run.path for run in runs], out=tmp_path / "mixed")
    both = hopwalk.combine_scorers([runs[0].path, runs[0].path], out=tmp_path / "both")
    assert both.about["reliability"] is None  # nobody is measured on what it has learnt
    with pytest.raises(DataError, match="has learnt the dev facts"):
        hopwalk.evaluate(both.path, "valid")
    assert (runs[0].about["valid_mrr"], runs[0].about["best_epoch"]) == (None, 60)
    assert hopwalk.evaluate(runs[0].path).tails.num_queries == 5  # the run has its data set as it was


# Cards, figures, TensorBoard


def test_card(tmp_path: Path, members: list[Path]):
    text = (members[1] / "card.md").read_text()
    assert text.startswith("# complex on test\n")
    assert "finished after 4 epochs" in text
    assert f"dev MRR (tails, filtered without test facts) | {100 * Run.open(members[1]).about['valid_mrr']:.2f} |" in text
    run = hopwalk.combine_scorers(members, out=tmp_path / "both")
    assert "members | 1-distmult, 2-complex" in (run.path / "card.md").read_text()


def test_reliability_figure_is_a_picture_of_the_bins():
    root = ElementTree.fromstring(reliability_svg([(0.05, 0.1, 900), (0.95, 0.7, 100)]))
    circles = root.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 2
    heights = [float(circle.get("cy", "nan")) for circle in circles]
    assert heights[0] > heights[1]  # what is true more often stands higher
    assert root.find(".//{http://www.w3.org/2000/svg}title") is not None


def test_tensorboard_has_the_history(tmp_path: Path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    settings = load_settings(overrides=["scorer.dimension=8", "scorer.epochs=3"])
    run = hopwalk.train_scorer(CIRCLE, settings, out=tmp_path / "run", tensorboard=True)
    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    written = [(event.step, event.value) for event in events.Scalars("valid_mrr")]
    assert [step for step, _ in written] == [1, 2, 3]
    np.testing.assert_allclose([value for _, value in written], [record["valid_mrr"] for record in run.history], rtol=1e-6)


def test_evaluation_in_the_run_folder(members: list[Path]):
    evaluation = hopwalk.evaluate(members[0], "valid", complete_filter=True)
    written = json.loads((members[0] / "evaluation-valid-complete.json").read_text())
    assert written == json.loads(json.dumps(evaluation.to_dict()))
    assert written["filter"] == "all known facts"
    assert {"mrr", "hits@1", "hits@3", "hits@10", "mrr_interval_95", "map"} <= written["tails"].keys()
    assert written["both"]["num_queries"] == 2 * written["tails"]["num_queries"] == 10
    assert written["both"]["mrr"] == pytest.approx((written["tails"]["mrr"] + written["heads"]["mrr"]) / 2)
    assert sum(part["num_queries"] for part in written["relations"].values()) == 5
