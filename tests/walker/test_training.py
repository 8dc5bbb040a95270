"""Training of a walker in parts: the gradient of a batch that does not fit into memory at once."""

from pathlib import Path
from typing import Any

import pytest
import torch

from hopwalk import api
from hopwalk.learning.optimizers import Optimizer
from hopwalk.walker import training
from hopwalk.walker.environment import Environment, Queries
from hopwalk.walker.rollout import Rollouts, roll_out
from hopwalk.walker.runs import build_environment
from hopwalk.walker.training import WalkerLearner
from tests.support.villages import ALONE, VILLAGE, settings_of, train_walker


def test_a_batch_in_parts_has_the_same_gradient(monkeypatch: pytest.MonkeyPatch):
    """One hop is summed over, and its entropy is exact: nothing random is left."""
    monkeypatch.setattr(Optimizer, "step", lambda _: None)  # keeps the gradients
    nothing_random = {"walk.hops": 1, "walker.action_dropout": 0.0, "walker.embedding_dropout": 0.0, "walker.hidden_dropout": 0.0}
    gradients, losses, sizes = [], [], []
    for memory in (4096, 64):
        more = {"walker.rollouts": 150, "walker.batch_size": 4096, "walker.entropy": 0.5, "walker.memory_mb": memory}
        settings = settings_of(ALONE | nothing_random | more)
        learner = WalkerLearner(build_environment(VILLAGE, settings), VILLAGE, settings, None)
        losses.append(learner.learn(1, torch.Generator().manual_seed(0), lambda *_: None)["loss"])
        gradients.append({name: value.grad for name, value in learner.model.named_parameters() if value.grad is not None})
        sizes.append(api.forecast(VILLAGE, settings).queries_at_once)
    assert sizes[1] < len(VILLAGE.train) <= sizes[0]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert gradients[0].keys() == gradients[1].keys() > {"relations", "entities"}
    for name, gradient in gradients[0].items():
        assert float((gradient - gradients[1][name]).norm()) <= 1e-3 * float(gradient.norm()), name


def test_training_in_parts_learns_the_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sizes: list[int] = []

    def counting_roll_out(environment: Environment, queries: Queries, **more: Any) -> Rollouts:
        sizes.append(len(queries))
        return roll_out(environment, queries, **more)

    monkeypatch.setattr(training, "roll_out", counting_roll_out)
    few_steps = {"walker.batch_size": 256, "walker.rollouts": 80, "walker.learning_rate": 0.05, "walker.epochs": 8}
    settings = settings_of(ALONE | few_steps | {"walker.memory_mb": 64})
    run = train_walker(VILLAGE, settings, out=tmp_path / "run")
    at_once = api.forecast(VILLAGE, settings).queries_at_once
    assert max(sizes) <= at_once < 128
    assert sum(sizes) == 8 * len(VILLAGE.train)
    assert api.evaluate(run.path)["policy"].tails.mrr > 0.8


@pytest.mark.parametrize(("decay_steps", "expected"), [(0, [0.5, 0.5, 0.45]), (2, [0.5, 0.5 * 0.9**0.5, 0.45])])
def test_the_weight_of_the_entropy_decays(decay_steps: int, expected: list[float]):
    """After each epoch of two batches, or in steps of the optimizer."""
    decay = {"walker.entropy": 0.5, "walker.entropy_decay": 0.9, "walker.entropy_decay_steps": decay_steps}
    settings = settings_of(ALONE | decay | {"walker.batch_size": -(-len(VILLAGE.train) // 2)})
    learner = WalkerLearner(build_environment(VILLAGE, settings), VILLAGE, settings, None)
    assert [learner.entropy_weight(step) for step in (0, 1, 2)] == pytest.approx(expected)
