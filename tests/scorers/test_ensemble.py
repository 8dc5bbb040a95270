"""Ensembles: the weighted mean of calibrated log-odds, copies of members, and refused combinations."""

import shutil
from pathlib import Path

import pytest
import torch

import hopwalk
from hopwalk.config.loading import load_settings
from hopwalk.errors import RunError, SettingsError
from hopwalk.learning.calibration import Calibration
from hopwalk.learning.metrics import metrics
from hopwalk.learning.ranking import filtered_answers, rank_answers
from hopwalk.scorers.ensemble import FIRST_WEIGHTS, Ensemble
from hopwalk.scorers.models import build_scorer
from tests.support.circles import CIRCLE
from tests.support.helpers import dataset_of

SHORT = ["scorer.model=complex", "scorer.epochs=1"]


def test_an_ensemble_is_the_weighted_mean_of_log_odds(tmp_path: Path, members: list[Path]):
    run = hopwalk.combine_scorers(members, out=tmp_path / "both")
    both, parts = hopwalk.load_scorer(run.path), [hopwalk.load_scorer(member) for member in members]
    heads, relations, tails = torch.tensor([0, 3, 7]), torch.tensor([0, 1, 3]), torch.tensor([1, 2, 3])
    weights = torch.tensor(run.about["weights"])[:, None, None]
    expected = (weights * torch.stack([part.log_odds_of_all_tails(heads, relations) for part in parts])).sum(dim=0)
    torch.testing.assert_close(both.score_all_tails(heads, relations), expected)
    torch.testing.assert_close(both.score_triples(heads, relations, tails), expected.gather(1, tails[:, None]).squeeze(1))
    probabilities = both.probability_of_all_tails(heads, relations)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    assert hopwalk.evaluate(run.path)["scorer"].tails.num_queries == 5


def test_weights_of_two_members_are_chosen_on_dev(tmp_path: Path, members: list[Path]):
    """The chosen weights have the best dev MRR of all that are tried."""
    run = hopwalk.combine_scorers(members, out=tmp_path / "both")
    scorers = [hopwalk.load_scorer(member) for member in members]
    known = filtered_answers(CIRCLE, "valid")

    def dev_mrr(first: float) -> float:
        score = Ensemble(scorers, [first, 1 - first]).numpy_scores
        return metrics(rank_answers(score, CIRCLE.valid, known, num_entities=len(CIRCLE.entities))).mrr

    mrr = {weight: dev_mrr(weight) for weight in FIRST_WEIGHTS}
    assert len({*mrr.values()}) > 1
    assert mrr[run.about["weights"][0]] == pytest.approx(max(mrr.values()))
    assert sum(run.about["weights"]) == pytest.approx(1)
    three = hopwalk.combine_scorers([*members, members[0]], out=tmp_path / "three")
    assert three.about["weights"] == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("weights", ["half", [1.0], [0.5, "half"], [1.5, -0.5], [0.5, 0.1]])
def test_damaged_weights(tmp_path: Path, members: list[Path], weights: object):
    run = hopwalk.combine_scorers(members, out=tmp_path / "both")
    run.write_about(run.about | {"weights": weights})
    with pytest.raises(RunError, match="the weights of the members cannot be read"):
        hopwalk.load_scorer(run.path)


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


def test_runs_that_cannot_be_combined(tmp_path: Path, members: list[Path]):
    with pytest.raises(SettingsError, match="an ensemble needs at least two runs"):
        hopwalk.combine_scorers(members[:1], out=tmp_path / "one")
    with pytest.raises(RunError, match="there is already a run in this folder"):
        hopwalk.combine_scorers(members, out=members[0])
    other = dataset_of([("a", "r", "b"), ("b", "r", "c")])
    run = hopwalk.train_scorer(other, load_settings(overrides=SHORT), out=tmp_path / "other")
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
    stranger = hopwalk.train_scorer(other, load_settings(overrides=SHORT), out=tmp_path / "other")
    name = run.about["members"][0]
    shutil.rmtree(run.path / "members" / name)
    shutil.copytree(stranger.path, run.path / "members" / name)
    with pytest.raises(RunError, match="trained on other data"):
        hopwalk.load_scorer(run.path)


def test_calibration_makes_scores_comparable():
    """A member whose scores are 1,000 times as large has the same weight as the other."""
    small = ["scorer.model=complex", "scorer.dimension=3"]
    scorers = [build_scorer(5, 1, load_settings(overrides=[*small, f"scorer.seed={seed}"]).scorer) for seed in (0, 1)]
    heads, relations = torch.tensor([0, 1]), torch.tensor([0, 1])
    before = Ensemble(scorers).score_all_tails(heads, relations)
    with torch.no_grad():
        scorers[0].get_parameter("entities").mul_(10.0)
    scorers[0].calibration = Calibration(slope=0.01)
    torch.testing.assert_close(Ensemble(scorers).score_all_tails(heads, relations), before)
