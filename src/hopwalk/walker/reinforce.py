"""The gradient of the policy: REINFORCE with sampled walks (§2.4), or with the last hop summed over instead of sampled.

A walk of T hops is a prefix of T−1 hops and a last edge. Sampled, its objective is `R(e_T) · log π(all T edges)`. But the scorer
gives the reward of every entity at once, so the expectation over the last edge can be taken instead of a sample from it:

    Σ_a π~(a) R(a) · log π(a)  +  (Σ_a π~(a) R(a)) · log π(prefix)

with π~ the policy after action dropout, through which no gradient goes. It is the same in expectation, with far less noise.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hopwalk.config.settings import WalkerSettings
from hopwalk.walker import ragged
from hopwalk.walker.environment import Questions
from hopwalk.walker.lstm import look_up
from hopwalk.walker.rollout import Rollouts


@dataclass
class Baseline:
    """What is subtracted from rewards so that gradients vary less; the paper does without."""

    kind: str = "none"
    average: float = 0.0  # of all rewards so far, the older the less

    def of(self, rewards: Tensor, rollouts: int) -> Tensor | float:
        """The baseline of every walk [S], given the rewards of walks [S] of which those of a question stand together."""
        if self.kind == "none":
            return 0.0
        if self.kind == "rollouts":
            return rewards.view(-1, rollouts).mean(dim=1).repeat_interleave(rollouts)
        before, self.average = self.average, 0.95 * self.average + 0.05 * float(rewards.mean())
        return before


def edge_rewards(
    rollouts: Rollouts, questions: Questions, probabilities: Tensor | None, positions: Tensor | None = None
) -> Tensor:
    """`R = R_b + (1 − R_b) f(head, relation, e_T)` (§2.5) of last edges: of all [N], or of those at some positions.

    `probabilities` [Q, E] are f; without them the reward is 1 for the answer and else 0.
    """
    tails = rollouts.last.tails
    rows = ragged.spread(rollouts.questions, rollouts.last.offsets)
    if positions is not None:
        tails, rows = tails[positions], rows[positions]
    assert questions.answers is not None
    is_answer = tails == questions.answers[rows]
    if probabilities is None:
        return is_answer.float()
    shaped = probabilities.view(-1).index_select(0, rows * probabilities.shape[1] + tails)
    return shaped.masked_fill_(is_answer, 1.0)


def policy_loss(
    rollouts: Rollouts, questions: Questions, probabilities: Tensor | None, settings: WalkerSettings, baseline: Baseline
) -> tuple[Tensor, Tensor]:
    """The loss whose gradient is that of the policy, without entropy, and the rewards of the sampled ends [S]."""
    num_walks = len(rollouts.ends)
    if settings.estimator == "sampled":
        rewards = edge_rewards(rollouts, questions, probabilities, rollouts.ends)
        gains = rewards - baseline.of(rewards, settings.rollouts)
        log_probs = rollouts.log_probs + look_up(rollouts.last.log_probs[:, None], rollouts.ends).squeeze(1)
        return -(gains * log_probs).sum() / num_walks, rewards
    of_edges = edge_rewards(rollouts, questions, probabilities)
    offsets, rewards = rollouts.last.offsets, of_edges[rollouts.ends]
    expected = ragged.row_sums(rollouts.last_weights * of_edges, offsets)
    level = baseline.of(expected, settings.rollouts)
    of_each = level if isinstance(level, float) else ragged.spread(level, offsets)
    last = (rollouts.last_weights * (of_edges - of_each) * rollouts.last.log_probs).sum()
    return -(last + ((expected - level) * rollouts.log_probs).sum()) / num_walks, rewards
