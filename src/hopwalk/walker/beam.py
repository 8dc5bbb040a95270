"""Beam search (§4.3): the likeliest walks of every query, the entities they reach, and the best paths to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hopwalk.walker import ragged
from hopwalk.walker.environment import Environment, Queries


@dataclass(frozen=True)
class Reached:
    """The entities that the walks of Q queries reach, best first: those of query q at `offsets[q]:offsets[q + 1]`.

    `scores` are log-probabilities: of the best path, or of all paths in the beam together. The best paths to entity i are rows
    `path_offsets[i]:path_offsets[i + 1]` of `paths` [P, 2T], relations and entities in turn; `path_log_probs` [P].
    """

    offsets: Tensor
    entities: Tensor
    scores: Tensor
    path_offsets: Tensor
    path_log_probs: Tensor
    paths: Tensor


@dataclass(frozen=True)
class LastActions:
    """All actions of the last hop [N]: query, walk, relation, tail, and log-probability of the whole walk.

    `prefixes` are the relations and entities of every walk before it [S, 2(T−1)].
    """

    queries: Tensor
    walks: Tensor
    relations: Tensor
    tails: Tensor
    log_probs: Tensor
    prefixes: Tensor


def _last_actions(environment: Environment, queries: Queries, hops: int, beam: int, blocks_known: bool) -> LastActions:
    """Keep the `beam` likeliest walks of every query at each hop but the last, and take all their actions there."""
    states = environment.start(queries)
    log_probs = torch.zeros(len(states))
    prefixes = torch.empty(len(states), 0, dtype=torch.int64)
    for hop in range(hops):
        is_last = hop == hops - 1
        actions = environment.step(states, queries, is_last=is_last, blocks_known=blocks_known)
        totals = ragged.repeat_per_row(log_probs, actions.offsets) + actions.log_probs
        if is_last:
            break
        # The walks of a query are adjacent, and so are their actions: they are the rows to take the best of.
        of_queries = _offsets_of_queries(states.queries, actions.offsets, len(queries))
        chosen, _ = ragged.top_of_rows(totals, of_queries, beam)
        walks = actions.walks.index_select(0, chosen)
        edges = torch.stack([actions.relations[chosen], actions.tails[chosen]], dim=1)
        prefixes, log_probs = torch.cat([prefixes[walks], edges], dim=1), totals[chosen]
        states = environment.transition(states, actions, chosen, walks=walks)
    of_actions = ragged.repeat_per_row(states.queries, actions.offsets)
    return LastActions(of_actions, actions.walks, actions.relations, actions.tails, totals, prefixes)


@dataclass(frozen=True)
class Beam:
    """The best entities that the walks of Q queries reach, and the last actions, from which paths are made.

    `entities` and `scores` [Q, B], B at most the width of the beam; best first, -inf where fewer are reached.
    """

    entities: Tensor
    scores: Tensor
    last: LastActions
    num_entities: int

    def without(self, queries: Tensor, entities: Tensor) -> Beam:
        """The same, with some entities of some queries, given as pairs, not reached."""
        is_hidden = torch.zeros(len(self.entities), self.num_entities, dtype=torch.bool)
        is_hidden[queries, entities] = True
        scores = self.scores.masked_fill(is_hidden.gather(1, self.entities), -torch.inf)
        return replace(self, scores=scores)

    def reached(self, is_chosen: Tensor | None = None, *, num_paths: int = 1) -> Reached:
        """The entities with their best paths: all of them, or those chosen [Q, B], which saves most of the work."""
        is_taken = self.scores > -torch.inf
        is_taken = is_taken if is_chosen is None else is_taken & is_chosen
        entities = self.entities[is_taken]
        places = (torch.arange(len(self.entities))[:, None] * self.num_entities + self.entities)[is_taken]
        path_offsets, rows = self._best_actions(places, num_paths)
        last = self.last
        ends = torch.stack([last.relations[rows], last.tails[rows]], dim=1)
        paths = torch.cat([last.prefixes[last.walks[rows]], ends], dim=1)
        offsets = ragged.offsets_of(is_taken.sum(dim=1))
        return Reached(offsets, entities, self.scores[is_taken], path_offsets, last.log_probs[rows], paths)

    def all_scores(self) -> Tensor:
        """The score of every entity [Q, E], -inf for those that are not reached."""
        return torch.full((len(self.entities), self.num_entities), -torch.inf).scatter_(1, self.entities, self.scores)

    def _best_actions(self, places: Tensor, num_paths: int) -> tuple[Tensor, Tensor]:
        """For each place in [Q, E], the likeliest actions that lead there: their offsets [P+1] and their rows."""
        numbers = torch.full((len(self.entities) * self.num_entities,), -1)
        numbers[places] = torch.arange(len(places))
        of_actions = numbers.index_select(0, self.last.queries * self.num_entities + self.last.tails)
        rows = ragged.places_of(of_actions >= 0)
        rows = rows[torch.argsort(self.last.log_probs[rows], descending=True, stable=True)]
        of_rows, order = torch.sort(of_actions[rows], stable=True)  # by place, and for each place by log-probability
        starts = ragged.offsets_of(torch.bincount(of_rows, minlength=len(places)))
        counts = starts.diff().clamp(max=num_paths)
        offsets = ragged.offsets_of(counts)
        return offsets, rows[order[ragged.ranges(starts[:-1], offsets)]]


@torch.inference_mode()
def beam_search(
    environment: Environment,
    queries: Queries,
    *,
    hops: int,
    beam: int,
    pooling: str = "max",
    blocks_known: bool = True,
) -> Beam:
    """Keep the `beam` likeliest walks at each hop; at the last, the `beam` best entities among all that are reached.

    An entity has the log-probability of its best path ("max", the paper's), or of all its paths together ("sum").
    """
    last = _last_actions(environment, queries, hops, beam, blocks_known)
    scores = _entity_scores(last, len(queries), environment.graph.num_entities, pooling)
    best = torch.topk(scores, min(beam, environment.graph.num_entities), dim=1)
    return Beam(best.indices, best.values, last, environment.graph.num_entities)


def _entity_scores(last: LastActions, num_queries: int, num_entities: int, pooling: str) -> Tensor:
    """The score of every entity that an action leads to [Q, E], -inf for others, without sorting."""
    places = last.queries * num_entities + last.tails
    scores = torch.full((num_queries * num_entities,), -torch.inf)
    scores.scatter_reduce_(0, places, last.log_probs, "amax")
    if pooling == "sum":
        relative = (last.log_probs - scores.index_select(0, places)).exp_()
        scores += torch.zeros_like(scores).scatter_add_(0, places, relative).log_().nan_to_num_(neginf=0.0)
    return scores.view(num_queries, num_entities)


@torch.inference_mode()
def ranks_along(environment: Environment, query: Queries, path: Sequence[int], *, beam: int) -> list[int]:
    """The rank of each prefix of a path among all walks of that length, counted from 1; a rank up to `beam` is in the beam.

    `path` is relations and entities in turn. The walks compared are those of a beam of width `beam`, and the path itself, which
    is kept whatever its rank.
    """
    states, hops, ranks = environment.start(query), len(path) // 2, []
    log_probs, followed = torch.zeros(1), 0  # `followed` is the walk along the path
    for hop in range(hops):
        actions = environment.step(states, query, is_last=hop == hops - 1)
        totals = ragged.repeat_per_row(log_probs, actions.offsets) + actions.log_probs
        own = slice(int(actions.offsets[followed]), int(actions.offsets[followed + 1]))
        is_step = (actions.relations[own] == path[2 * hop]) & (actions.tails[own] == path[2 * hop + 1])
        place = own.start + int(is_step.nonzero()[0])
        ranks.append(int((totals > totals[place]).sum()) + 1)
        if hop < hops - 1:
            chosen = torch.topk(totals, min(beam, len(totals))).indices
            chosen = chosen if bool((chosen == place).any()) else torch.cat([chosen, torch.tensor([place])])
            followed = int((chosen == place).nonzero()[0])
            log_probs = totals[chosen]
            states = environment.transition(states, actions, chosen, walks=actions.walks[chosen])
    return ranks


def _offsets_of_queries(query_of_walk: Tensor, offsets: Tensor, num_queries: int) -> Tensor:
    """The offsets of the actions of each query, given those of each walk."""
    num_walks = torch.bincount(query_of_walk, minlength=num_queries)
    return offsets[ragged.offsets_of(num_walks)]
