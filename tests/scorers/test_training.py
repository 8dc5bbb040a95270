"""Training of scorers: a rule is learnt, and the seed determines the result."""

from pathlib import Path
from typing import Any

import pytest
import torch

import hopwalk
from hopwalk.learning.evaluation import evaluate_split
from hopwalk.scorers.models import MODELS, build_scorer
from hopwalk.scorers.runs import train_into
from tests.support.helpers import dataset_of
from tests.support.schools import SCHOOL, settings_of
from tests.support.stopping import result_of

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
    assert hopwalk.evaluate(run.path)["scorer"].tails.mrr == 1
    assert hopwalk.evaluate(run.path, "valid")["scorer"].tails.mrr == 1
    losses = [record["loss"] for record in run.history]
    assert losses[-1] < losses[0]


def test_distmult_cannot_learn_a_direction_and_complex_can(tmp_path: Path):
    """Every class teaches the next one in a ring: for DistMult the previous class is as likely as the next one."""
    facts = [
        (f"{room}{one}", "teaches", f"{'bcda'['abcd'.index(room)]}{two}") for room in "abcd" for one in "123" for two in "123"
    ]
    ring = dataset_of(facts, test=facts[::7])
    found = {}
    for model in ("distmult", "complex"):
        settings = settings_of(model=model, dimension=16, epochs=30, evaluate_every=30, initial_scale=0.3, learning_rate=0.1)
        found[model] = hopwalk.evaluate(hopwalk.train_scorer(ring, settings, out=tmp_path / model).path)["scorer"].tails.mrr
    assert found["complex"] == 1
    assert found["distmult"] < 0.7


@pytest.mark.parametrize("model", MODELS)
def test_the_same_seed_gives_the_same_result(tmp_path: Path, model: str):
    results = []
    for number, seed in enumerate((5, 5, 6)):
        torch.manual_seed(number)  # the global generator must not matter
        run = hopwalk.train_scorer(SCHOOL, settings_of(model=model, seed=seed, epochs=2), out=tmp_path / str(number))
        results.append(result_of(run))
    assert results[0] == results[1]
    assert results[0][0] != results[2][0]
    assert [record["loss"] for record in results[0][1]] != [record["loss"] for record in results[2][1]]


def test_the_same_seed_gives_the_same_result_with_two_threads(tmp_path: Path):
    """With so many dimensions PyTorch uses both threads: the order in which gradients are summed must not depend on them."""
    settings = settings_of(model="complex", dimension=800, batch_size=128, epochs=10, relation_weight=0.5, train_on_valid=True)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        first, second = (hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / name) for name in ("first", "second"))
    finally:
        torch.set_num_threads(threads)
    assert first.weights_path.read_bytes() == second.weights_path.read_bytes()


def test_epochs_and_seeds_differ_in_their_random_numbers(tmp_path: Path):
    """The same initial parameters, which do not change: the loss differs only by the order of queries and by dropout."""
    losses = []
    for seed in (1, 2):
        settings = settings_of(learning_rate=1e-30, input_dropout=0.5, initial_scale=1.0, seed=seed)
        initial = settings.scorer.model_copy(update={"seed": 0})
        scorer = build_scorer(len(SCHOOL.entities), len(SCHOOL.relations), initial)
        run, _ = train_into(tmp_path / str(seed), SCHOOL, settings, scorer=scorer)
        losses += [record["loss"] for record in run.history]
    assert len({*losses}) == len(losses) == 10


@pytest.mark.parametrize("model", ["distmult", "complex", "conve"])
def test_a_last_batch_of_one_query(tmp_path: Path, model: str):
    """84 queries, at most 83 per batch: batch normalisation of one vector is undefined."""
    assert hopwalk.train_scorer(SCHOOL, settings_of(model=model, batch_size=83), out=tmp_path / "run").about["epochs"] == 5
