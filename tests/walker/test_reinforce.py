"""The policy gradient, against the gradient of the expected reward over all paths."""

import pytest
import torch

from hopwalk.walker import ragged
from hopwalk.walker.reinforce import Baseline, policy_loss, shaped_rewards
from tests.support.walks import all_paths, environment_of, rollouts_of, training_queries_of


def test_shaped_rewards_are_those_of_equation_7():
    environment = environment_of()
    queries = training_queries_of(environment, (0, 0, 1), (1, 0, 3))
    rollouts = rollouts_of(environment, queries, hops=2, rollouts=4)
    f = torch.tensor([[0.1, 0.2, 0.3, 0.4, 0.5], [0.6, 0.7, 0.8, 0.9, 0.05]])
    ends, rows = rollouts.last.tails[rollouts.ends].tolist(), rollouts.queries.tolist()
    is_answer = [end == (1, 3)[row] for end, row in zip(ends, rows, strict=True)]
    expected = [1.0 if right else float(f[row, end]) for right, row, end in zip(is_answer, rows, ends, strict=True)]
    assert shaped_rewards(rollouts, queries, f, rollouts.ends).tolist() == pytest.approx(expected)
    assert shaped_rewards(rollouts, queries, f)[rollouts.ends].tolist() == pytest.approx(expected)
    assert shaped_rewards(rollouts, queries, None, rollouts.ends).tolist() == [float(right) for right in is_answer]


@pytest.mark.parametrize("estimator", ["sampled", "sum"])
@pytest.mark.parametrize("is_shaped", [False, True])
def test_the_gradient_is_that_of_the_expected_reward(estimator: str, is_shaped: bool):
    """Without action dropout both estimators have the gradient of E[R], which enumeration of all paths gives exactly."""
    torch.manual_seed(0)
    environment = environment_of(estimator=estimator, rollouts=4000)
    queries = training_queries_of(environment, (0, 0, 1))
    f = torch.rand(1, 5) if is_shaped else None

    def reward(end: int) -> float:
        return 1.0 if end == 1 else float(f[0, end]) if f is not None else 0.0

    terms = [log_prob.exp() * reward(path[-1][1]) for path, log_prob in all_paths(environment, queries, 2)]
    expected = torch.stack(terms).sum()
    exact = torch.autograd.grad(-expected, environment.policy.w2.weight)[0]
    rollouts = rollouts_of(environment, queries, hops=2, rollouts=4000)
    loss, rewards = policy_loss(rollouts, queries, f, environment.policy.settings, Baseline())
    found = torch.autograd.grad(loss, environment.policy.w2.weight)[0]
    tolerance = 0.15 if estimator == "sampled" else 0.05
    assert float((found - exact).norm() / exact.norm()) < tolerance
    assert abs(float(rewards.mean()) - float(expected.detach())) < 0.03


@pytest.mark.parametrize("is_shaped", [False, True])
def test_the_gradient_of_the_likelihood_is_that_of_all_paths(is_shaped: bool):
    """With so many rollouts every path is found, so P(e) is exact; paths that are found often count once."""
    torch.manual_seed(0)
    environment = environment_of(estimator="likelihood", rollouts=4000)
    queries = training_queries_of(environment, (0, 0, 1))
    f = torch.rand(1, 5) if is_shaped else None
    probs = [torch.zeros(()) for _ in range(5)]
    for path, log_prob in all_paths(environment, queries, 2):
        probs[path[-1][1]] = probs[path[-1][1]] + log_prob.exp()
    rewards = [1.0 if end == 1 else float(f[0, end]) if f is not None else 0.0 for end in range(5)]
    terms = [reward * prob.log() for reward, prob in zip(rewards, probs, strict=True) if reward and prob > 0]
    exact = torch.autograd.grad(-torch.stack(terms).sum(), environment.policy.w2.weight)[0]
    rollouts = rollouts_of(environment, queries, hops=2, rollouts=4000)
    loss, _ = policy_loss(rollouts, queries, f, environment.policy.settings, Baseline())
    found = torch.autograd.grad(loss, environment.policy.w2.weight)[0]
    assert float((found - exact).norm() / exact.norm()) < 1e-4


def test_baselines_keep_the_expected_gradient():
    environment = environment_of(estimator="sum", rollouts=2000, baseline="rollouts")
    queries = training_queries_of(environment, (0, 0, 1))
    gradients = []
    for kind in ("none", "rollouts", "average"):
        rollouts = rollouts_of(environment, queries, hops=2, rollouts=2000)
        loss, _ = policy_loss(rollouts, queries, None, environment.policy.settings, Baseline(kind, 0.3))
        gradients.append(torch.autograd.grad(loss, environment.policy.w2.weight)[0])
    for other in gradients[1:]:
        assert float((other - gradients[0]).norm() / gradients[0].norm()) < 0.2


def test_the_average_baseline_follows_rewards():
    baseline = Baseline("average")
    assert baseline.of(torch.ones(4), 2) == 0.0
    assert baseline.of(torch.ones(4), 2) == pytest.approx(0.05)


def test_the_baseline_of_rollouts_is_their_mean():
    baseline = Baseline("rollouts").of(torch.tensor([1.0, 0.0, 0.5, 0.25]), 2)
    assert isinstance(baseline, torch.Tensor)
    assert baseline.tolist() == [0.5, 0.5, 0.375, 0.375]


def test_standardised_rewards_have_mean_0_and_deviation_1():
    rewards, baseline = torch.tensor([1.0, 0.0, 0.5, 0.25]), Baseline("standardised")
    gains = (rewards - baseline.of(rewards, 2)) * baseline.scale_of(rewards)
    assert float(gains.mean()) == pytest.approx(0, abs=1e-6)
    assert float(gains.std(correction=0)) == pytest.approx(1, rel=1e-4)
    assert Baseline("none").scale_of(rewards) == 1
    same = torch.full((4,), 0.5)
    assert ((same - baseline.of(same, 2)) * baseline.scale_of(same)).tolist() == [0.0] * 4


@pytest.mark.parametrize("estimator", ["sampled", "sum"])
def test_the_gradient_of_standardised_rewards(estimator: str):
    """Standardising subtracts a constant, which the gradient ignores on average, and scales by the deviation."""
    environment = environment_of(estimator=estimator, rollouts=4000)
    queries = training_queries_of(environment, (0, 0, 1))
    gradients = []
    for kind in ("none", "standardised"):
        rollouts = rollouts_of(environment, queries, hops=2, rollouts=4000)
        baseline = Baseline(kind)
        loss, rewards = policy_loss(rollouts, queries, None, environment.policy.settings, baseline)
        of_rows = ragged.row_sums(rollouts.last_weights * shaped_rewards(rollouts, queries, None), rollouts.last.offsets)
        scale = baseline.scale_of(rewards if estimator == "sampled" else of_rows)
        gradients.append(torch.autograd.grad(loss, environment.policy.w2.weight)[0] / scale)
    assert float((gradients[1] - gradients[0]).norm() / gradients[0].norm()) < 0.2
