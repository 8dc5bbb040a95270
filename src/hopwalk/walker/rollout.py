"""Walks sampled from the policy under action dropout (§2.6), and what REINFORCE needs of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hopwalk.utils.products import rounded_up
from hopwalk.utils.randomness import keep_mask
from hopwalk.walker import ragged
from hopwalk.walker.environment import ActionSpace, Environment, Queries
from hopwalk.walker.lstm import look_up

EPSILON = 1e-10  # ε of equation 8: the weight of a masked action


@dataclass(frozen=True)
class Rollouts:
    """K walks of T hops for each of Q queries, those of a query next to each other; S = Q · K walks.

    `queries` is the query of each walk [S]. `log_probs` is Σ log π(a_t | s_t) over all hops but the last [S]. `last` is the
    action space of the last hop, `last_weights` are π~ of its actions [N], and `ends` the position of the action taken [S].
    `entropies` holds the mean entropy of π at each hop. `paths` are the relations and entities of each walk in turn [S, 2T].
    """

    queries: Tensor
    log_probs: Tensor
    last: ActionSpace
    last_weights: Tensor
    ends: Tensor
    entropies: list[Tensor]
    paths: Tensor


def action_dropout(probs: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """`π~(a | s) ∝ π(a | s) · m + ε` with `m_i ~ Bernoulli(1 − α)` and α the `rate` (equations 8 and 9) [N]; not normalised."""
    if rate == 0:
        return probs
    if rate == 1:
        return torch.full_like(probs, EPSILON)
    return keep_mask(probs.shape, rate, generator).to(probs.dtype).mul_(probs).add_(EPSILON)


def roll_out(
    environment: Environment,
    queries: Queries,
    *,
    hops: int,
    rollouts: int,
    action_dropout_rate: float,
    generator: torch.Generator,
) -> Rollouts:
    """Sample `rollouts` walks of each query by π~; gradients flow through log π, not through the sampling.

    With the masks of a walk, the walks of a query that took the same path so far share a state: its encoding, its actions and
    its dropout are computed once. With masks of every edge, each walk has a state of its own.
    """
    shares = environment.policy.settings.dropout_masks == "walk"
    num_walks = rollouts * len(queries)
    walks = torch.arange(num_walks)
    states = environment.start(queries, generator, rollouts=1 if shares else rollouts)
    rows = walks // rollouts if shares else walks  # the state of each walk
    entropies, steps = [], []
    log_probs = torch.zeros(num_walks)
    for hop in range(hops):
        is_last = hop == hops - 1
        actions = environment.step(states, queries, is_last=is_last, generator=generator)
        entropies.append(_mean_entropy(actions, rows))
        entries, offsets = ragged.take_rows(actions.offsets, rows)
        weights = action_dropout(actions.log_probs.detach().exp()[entries], action_dropout_rate, generator)
        chosen = ragged.sample(weights, offsets, generator)
        taken = entries[chosen]
        steps += [actions.relations[taken], actions.tails[taken]]
        if not is_last:
            log_probs = log_probs + look_up(actions.log_probs[:, None], taken).squeeze(1)
            if shares:
                taken, rows = torch.unique(taken, return_inverse=True)
                taken = torch.cat(
                    [taken, taken[-1:].expand(rounded_up(len(taken)) - len(taken))]
                )  # no walk is in the last states
            states = environment.transition(states, actions, taken, walks=actions.walks[taken], generator=generator)
    weights = weights / ragged.repeat_per_row(ragged.row_sums(weights, offsets), offsets)
    last = actions.take(entries, offsets)
    return Rollouts(walks // rollouts, log_probs, last, weights, chosen, entropies, torch.stack(steps, dim=1))


def _mean_entropy(actions: ActionSpace, rows: Tensor) -> Tensor:
    """The mean entropy of π over walks, given the state of each [S]."""
    num_walks = ragged.repeat_per_row(torch.bincount(rows, minlength=len(actions.offsets) - 1).float(), actions.offsets)
    return -(actions.log_probs.exp() * actions.log_probs * num_walks).sum() / len(rows)
