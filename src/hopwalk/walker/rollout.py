"""Walks sampled from the policy, its edges dropped at random (§2.6), and what is needed to learn from them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hopwalk.walker import ragged
from hopwalk.walker.environment import Choices, Questions, Walker
from hopwalk.walker.lstm import look_up


@dataclass(frozen=True)
class Rollouts:
    """K walks of T hops for each of Q questions, those of a question next to each other; S = Q · K walks.

    `log_probs` is log π of the edges taken before the last hop, summed up [S]. `last` are the choices at the last hop, with what
    each weighs after action dropout, normalised for each walk [N]; `ends` is one of them for every walk [S]. `entropies` holds
    the mean entropy of π at every hop. `trails` are the relations and entities of each walk, one after the other [S, 2T].
    """

    questions: Tensor
    log_probs: Tensor
    last: Choices
    last_weights: Tensor
    ends: Tensor
    entropies: list[Tensor]
    trails: Tensor


def roll_out(
    walker: Walker,
    questions: Questions,
    *,
    hops: int,
    rollouts: int,
    action_dropout: float,
    log_odds: Tensor | None,
    generator: torch.Generator,
) -> Rollouts:
    """Sample walks. All rollouts of a question share the first state, so the first step is computed once for each question."""
    walks, log_probs, trail, entropies = walker.begin(questions, generator), None, [], []
    for hop in range(hops):
        is_last = hop == hops - 1
        choices = walker.step(walks, questions, is_last=is_last, log_odds=log_odds, generator=generator)
        entropies.append(-(choices.log_probs.exp() * choices.log_probs).sum() / len(walks))
        if hop == 0:
            taken, offsets = ragged.repeat_rows(choices.offsets, rollouts)
            rows = torch.repeat_interleave(torch.arange(len(questions)), rollouts)
        else:
            taken, offsets, rows = None, choices.offsets, None
        probs = choices.log_probs.detach().exp()
        weights = ragged.dropped_out(probs if taken is None else probs[taken], action_dropout, generator)
        drawn = ragged.draw(weights, offsets, generator)
        chosen = drawn if taken is None else taken[drawn]
        trail += [choices.relations[chosen], choices.tails[chosen]]
        if is_last:
            break
        log_prob = look_up(choices.log_probs[:, None], chosen).squeeze(1)
        log_probs = log_prob if log_probs is None else log_probs + log_prob
        walks = walker.take(walks, choices, chosen, rows, generator)
    if taken is not None:  # with one hop, the last choices are the first, shared by all rollouts
        choices = Choices(
            offsets, choices.relations[taken], choices.tails[taken], look_up(choices.log_probs[:, None], taken)[:, 0]
        )
    weights = weights / ragged.spread(ragged.row_sums(weights, offsets), offsets)
    before = log_probs if log_probs is not None else choices.log_probs.new_zeros(len(drawn))
    asked = walks.questions if rows is None else walks.questions[rows]  # with one hop, the rollouts of a question are one walk
    return Rollouts(asked, before, choices, weights, drawn, entropies, torch.stack(trail, dim=1))
