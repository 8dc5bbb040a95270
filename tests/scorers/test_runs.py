"""Run folders of scorers: training on dev facts too, and evaluations."""

import json
from pathlib import Path

import pytest

import hopwalk
from hopwalk.config.loading import load_settings
from hopwalk.errors import DataError, RunError
from hopwalk.learning.evaluation import evaluate_split
from tests.support.circles import FACTS
from tests.support.helpers import dataset_of


def test_training_on_dev_facts(tmp_path: Path):
    """No rule predicts the dev facts: a scorer that ranks them first was trained on them."""
    odd = [(f"person {number}", "knows", f"person {(7 * number + 3) % 20}") for number in range(0, 20, 4)]
    dataset = dataset_of(FACTS[:20], odd, FACTS[20:25])
    tiny = ["scorer.model=complex", "scorer.dimension=16", "scorer.epochs=60", "scorer.n3=0.0"]
    runs = [
        hopwalk.train_scorer(dataset, load_settings(overrides=[*tiny, f"scorer.train_on_valid={value}"]), out=tmp_path / value)
        for value in ("true", "false")
    ]
    trained, untrained = (evaluate_split(hopwalk.load_scorer(run.path).numpy_scores, dataset, "valid").tails.mrr for run in runs)
    assert trained > 0.9 > 0.6 > untrained
    with pytest.raises(DataError, match="the run was trained on the dev set, so it cannot be evaluated on it"):
        hopwalk.evaluate(runs[0].path, "valid")
    with pytest.raises(RunError, match=r"only one of this run and .* was trained on the dev set"):
        hopwalk.combine_scorers([run.path for run in runs], out=tmp_path / "mixed")
    both = hopwalk.combine_scorers([runs[0].path, runs[0].path], out=tmp_path / "both")
    assert both.about["reliability"] is None  # a scorer is not measured on facts it was trained on
    with pytest.raises(DataError, match="the run was trained on the dev set, so it cannot be evaluated on it"):
        hopwalk.evaluate(both.path, "valid")
    assert (runs[0].about["valid_mrr"], runs[0].about["best_epoch"]) == (None, 60)
    assert hopwalk.evaluate(runs[0].path)["scorer"].tails.num_queries == 5  # the data set in the run folder is unchanged


def test_evaluation_in_the_run_folder(members: list[Path]):
    evaluation = hopwalk.evaluate(members[0], "valid", complete_filter=True, directions="both")["scorer"]
    content = json.loads((members[0] / "evaluation-valid-complete.json").read_text())
    written = content["scorer"]
    assert written == json.loads(json.dumps(evaluation.to_dict()))
    assert written["filter"] == "all known facts"
    assert {"mrr", "hits@1", "hits@3", "hits@10", "mrr_interval_95", "map"} <= written["tails"].keys()
    assert written["both"]["num_queries"] == 2 * written["tails"]["num_queries"] == 10
    assert written["both"]["mrr"] == pytest.approx((written["tails"]["mrr"] + written["heads"]["mrr"]) / 2)
    assert sum(part["num_queries"] for part in written["relations"].values()) == 5
