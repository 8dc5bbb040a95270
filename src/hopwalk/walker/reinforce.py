"""The gradient of the policy (§2.4, §2.5): REINFORCE on sampled walks, or with the last hop summed over instead of sampled.

A walk of T hops is a prefix of T−1 hops and a last action. Sampled, its objective is `R(s_T) · log π(all T actions)` (equation
6). The scorer gives the reward of every entity at once, so the expectation over the last action can be taken instead of a sample:

    Σ_a π~(a) R(a) · log π(a)  +  (Σ_a π~(a) R(a)) · log π(prefix)

No gradient flows through π~, the policy after action dropout. The expectation is the same, with far less noise.

A policy that finds no answer yet has rewards near 0, so its gradients are small and it learns slowly. The likelihood does not
have that fault. With P(e) = Σ π(path) over the distinct paths that were found to e, a lower bound of the probability to end
there, the objective and its gradient are

    Σ_e R(e) · log P(e),   Σ_paths R(end) · π(path) / P(end) · ∇ log π(path)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hopwalk.config.settings import WalkerSettings
from hopwalk.walker import ragged
from hopwalk.walker.environment import Queries
from hopwalk.walker.lstm import look_up
from hopwalk.walker.rollout import Rollouts


@dataclass
class Baseline:
    """The value subtracted from rewards to reduce the variance of gradients; the paper has none."""

    kind: str = "none"
    average: float = 0.0  # exponential moving average of the rewards

    def of(self, rewards: Tensor, rollouts: int) -> Tensor | float:
        """The baseline of every walk [S], given the rewards of walks [S], those of a query next to each other."""
        if self.kind == "none":
            return 0.0
        if self.kind == "rollouts":
            return rewards.view(-1, rollouts).mean(dim=1).repeat_interleave(rollouts)
        if self.kind == "standardised":
            return float(rewards.mean())
        before, self.average = self.average, 0.95 * self.average + 0.05 * float(rewards.mean())
        return before

    def scale_of(self, rewards: Tensor) -> float:
        """The factor on gains: one over the deviation of the rewards if they are standardised, else 1."""
        return 1.0 / (float(rewards.std(correction=0)) + 1e-6) if self.kind == "standardised" else 1.0


def shaped_rewards(rollouts: Rollouts, queries: Queries, f: Tensor | None, positions: Tensor | None = None) -> Tensor:
    """`R(s_T) = R_b(s_T) + (1 − R_b(s_T)) f(e_s, r_q, e_T)` (equation 7) of all last actions [N], or of some positions.

    `f` [Q, E] is the scorer's probability of every entity. Without it the reward is R_b of equation 1: 1 at the answer, else 0.
    """
    tails = rollouts.last.tails
    rows = ragged.repeat_per_row(rollouts.queries, rollouts.last.offsets)
    if positions is not None:
        tails, rows = tails[positions], rows[positions]
    assert queries.answers is not None
    is_answer = tails == queries.answers[rows]
    if f is None:
        return is_answer.float()
    return f.view(-1).index_select(0, rows * f.shape[1] + tails).masked_fill_(is_answer, 1.0)


def policy_loss(
    rollouts: Rollouts, queries: Queries, f: Tensor | None, settings: WalkerSettings, baseline: Baseline
) -> tuple[Tensor, Tensor]:
    """The loss whose gradient is −∇J(θ) of equation 6, without the entropy bonus, and the rewards of the sampled ends [S]."""
    num_walks = len(rollouts.ends)
    if settings.estimator == "sampled":
        rewards = shaped_rewards(rollouts, queries, f, rollouts.ends)
        gains = (rewards - baseline.of(rewards, settings.rollouts)) * baseline.scale_of(rewards)
        log_probs = rollouts.log_probs + look_up(rollouts.last.log_probs[:, None], rollouts.ends).squeeze(1)
        return -(gains * log_probs).sum() / num_walks, rewards
    of_actions = shaped_rewards(rollouts, queries, f)
    offsets, rewards = rollouts.last.offsets, of_actions[rollouts.ends]
    if settings.estimator == "likelihood":
        weights = of_actions * path_posteriors(rollouts, len(queries))
        last = (weights * rollouts.last.log_probs).sum()
        return -(last + (ragged.row_sums(weights, offsets) * rollouts.log_probs).sum()) / len(queries), rewards
    expected = ragged.row_sums(rollouts.last_weights * of_actions, offsets)
    level = baseline.of(expected, settings.rollouts)
    level_of_actions = level if isinstance(level, float) else ragged.repeat_per_row(level, offsets)
    last = (rollouts.last_weights * (of_actions - level_of_actions) * rollouts.last.log_probs).sum()
    scale = baseline.scale_of(expected) / num_walks
    return -(last + ((expected - level) * rollouts.log_probs).sum()) * scale, rewards


def path_posteriors(rollouts: Rollouts, num_queries: int) -> Tensor:
    """π(path) / P(end) of the path that each last action completes [N]; P(end) is the sum over distinct paths to the same end."""
    last, num_entities = rollouts.last, int(rollouts.last.tails.max()) + 1
    prefixes = torch.cat([rollouts.queries[:, None], rollouts.paths[:, :-2]], dim=1)
    _, numbers = torch.unique(prefixes, dim=0, return_inverse=True)
    is_first = torch.zeros(len(numbers), dtype=torch.bool)
    is_first[torch.from_numpy(np.unique(numbers.numpy(), return_index=True)[1])] = True
    log_probs = ragged.repeat_per_row(rollouts.log_probs.detach(), last.offsets) + last.log_probs.detach()
    probs = log_probs.double().exp() * ragged.repeat_per_row(is_first, last.offsets)
    ends = ragged.repeat_per_row(rollouts.queries, last.offsets) * num_entities + last.tails
    totals = torch.zeros(num_queries * num_entities, dtype=torch.float64).index_add_(0, ends, probs)
    return (probs / totals[ends].clamp(min=1e-300)).float()
