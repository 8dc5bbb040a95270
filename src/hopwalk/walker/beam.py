"""Beam search (§4.3): the likeliest walks of every question, and the entities they reach, each with its best paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from hopwalk.walker import ragged
from hopwalk.walker.environment import Questions, Walker


@dataclass(frozen=True)
class Reached:
    """The entities that the walks of Q questions reach, best first: those of question q at `offsets[q]:offsets[q + 1]`.

    `scores` are log-probabilities: of the best path, or of all paths in the beam together. `paths` are the best paths to every
    entity: `path_offsets` says whose they are, `path_scores` are their log-probabilities, and each is a row of relations and
    entities, one after the other [P, 2T].
    """

    offsets: Tensor
    entities: Tensor
    scores: Tensor
    path_offsets: Tensor
    path_scores: Tensor
    paths: Tensor


@dataclass(frozen=True)
class LastEdges:
    """The edges that the walks of a beam can take last [N]: whose they are, where they lead, log-probabilities of whole walks.

    `trails` are the relations and entities of every walk before them [S, 2(T−1)].
    """

    questions: Tensor
    walks: Tensor
    relations: Tensor
    tails: Tensor
    totals: Tensor
    trails: Tensor


def _last_edges(
    walker: Walker, questions: Questions, hops: int, beam: int, log_odds: Tensor | None, blocks_known: bool
) -> LastEdges:
    """Keep the `beam` likeliest walks of every question at each hop but the last, and look at all their next edges there."""
    walks = walker.begin(questions)
    scores = torch.zeros(len(walks))
    trails = torch.empty(len(walks), 0, dtype=torch.int64)
    for hop in range(hops):
        is_last = hop == hops - 1
        choices = walker.step(walks, questions, is_last=is_last, log_odds=log_odds, blocks_known=blocks_known)
        totals = ragged.spread(scores, choices.offsets) + choices.log_probs
        if is_last:
            break
        # Walks of a question stand together, so its choices do too: they are the rows to take the best of.
        of_questions = _offsets_of_questions(walks.questions, choices.offsets, len(questions))
        chosen, _ = ragged.top_of_rows(totals, of_questions, beam)
        rows = choices.walks.index_select(0, chosen)
        edges = torch.stack([choices.relations[chosen], choices.tails[chosen]], dim=1)
        trails, scores = torch.cat([trails[rows], edges], dim=1), totals[chosen]
        walks = walker.take(walks, choices, chosen, rows)
    asking = ragged.spread(walks.questions, choices.offsets)
    return LastEdges(asking, choices.walks, choices.relations, choices.tails, totals, trails)


@dataclass(frozen=True)
class Beam:
    """The best entities that the walks of Q questions reach, and the edges that lead there, of which paths can be made.

    `entities` and `scores` [Q, B], B at most the width of the beam; best first, -inf where fewer are reached.
    """

    entities: Tensor
    scores: Tensor
    last: LastEdges
    num_entities: int

    def without(self, questions: Tensor, entities: Tensor) -> Beam:
        """The same, but that some entities of some questions, given as pairs, count as not reached."""
        is_hidden = torch.zeros(len(self.entities), self.num_entities, dtype=torch.bool)
        is_hidden[questions, entities] = True
        scores = self.scores.masked_fill(is_hidden.gather(1, self.entities), -torch.inf)
        return replace(self, scores=scores)

    def rewarded(self, log_odds: Tensor, weight: float) -> Beam:
        """The same, with `weight` times the log of the scorer's probability that an entity is right added to its score.

        A policy is likely to go wherever there is no other way to go; the scorer's opinion tells such ends from right ones. With
        a weight of 1 the score is how likely a walk goes there and is right.
        """
        rewards = functional.logsigmoid(log_odds.gather(1, self.entities))
        return replace(self, scores=self.scores + weight * rewards)

    def reached(self, is_wanted: Tensor | None = None, *, num_paths: int = 1) -> Reached:
        """The entities with their best paths: all of them, or only those wanted [Q, B], which saves most of the work."""
        is_taken = self.scores > -torch.inf
        is_taken = is_taken if is_wanted is None else is_taken & is_wanted
        entities = self.entities[is_taken]
        places = (torch.arange(len(self.entities))[:, None] * self.num_entities + self.entities)[is_taken]
        path_offsets, rows = self._best_edges(places, num_paths)
        last = self.last
        ends = torch.stack([last.relations[rows], last.tails[rows]], dim=1)
        paths = torch.cat([last.trails[last.walks[rows]], ends], dim=1)
        offsets = ragged.offsets_of(is_taken.sum(dim=1))
        return Reached(offsets, entities, self.scores[is_taken], path_offsets, last.totals[rows], paths)

    def all_scores(self) -> Tensor:
        """The score of every entity [Q, E], -inf for those that are not reached."""
        return torch.full((len(self.entities), self.num_entities), -torch.inf).scatter_(1, self.entities, self.scores)

    def _best_edges(self, places: Tensor, num_paths: int) -> tuple[Tensor, Tensor]:
        """For each place in [Q, E], the likeliest edges that lead there: where each place's begin [P+1], and their rows."""
        numbers = torch.full((len(self.entities) * self.num_entities,), -1)
        numbers[places] = torch.arange(len(places))
        of_edges = numbers.index_select(0, self.last.questions * self.num_entities + self.last.tails)
        rows = ragged.places_of(of_edges >= 0)
        rows = rows[torch.argsort(self.last.totals[rows], descending=True, stable=True)]
        of_rows, order = torch.sort(of_edges[rows], stable=True)  # by place, and among those of a place by likelihood
        starts = ragged.offsets_of(torch.bincount(of_rows, minlength=len(places)))
        counts = starts.diff().clamp(max=num_paths)
        offsets = ragged.offsets_of(counts)
        return offsets, rows[order[ragged.ranges(starts[:-1], offsets)]]


@torch.inference_mode()
def beam_search(
    walker: Walker,
    questions: Questions,
    *,
    hops: int,
    beam: int,
    pooling: str = "max",
    log_odds: Tensor | None = None,
    blocks_known: bool = True,
) -> Beam:
    """Keep the `beam` likeliest walks at each hop; at the last, the `beam` best entities among all that their next edges reach.

    An entity has the score of its best path ("max", the paper's), or of all its paths together ("sum").
    """
    last = _last_edges(walker, questions, hops, beam, log_odds, blocks_known)
    scores = _entity_scores(last, len(questions), walker.graph.num_entities, pooling)
    best = torch.topk(scores, min(beam, walker.graph.num_entities), dim=1)
    return Beam(best.indices, best.values, last, walker.graph.num_entities)


def _entity_scores(last: LastEdges, num_questions: int, num_entities: int, pooling: str) -> Tensor:
    """The score of every entity that an edge leads to [Q, E], -inf for others; nothing is sorted for that."""
    places = last.questions * num_entities + last.tails
    scores = torch.full((num_questions * num_entities,), -torch.inf)
    scores.scatter_reduce_(0, places, last.totals, "amax")
    if pooling == "sum":
        relative = (last.totals - scores.index_select(0, places)).exp_()
        scores += torch.zeros_like(scores).scatter_add_(0, places, relative).log_().nan_to_num_(neginf=0.0)
    return scores.view(num_questions, num_entities)


@torch.inference_mode()
def ranks_along(
    walker: Walker, question: Questions, trail: Sequence[int], *, beam: int, log_odds: Tensor | None = None
) -> list[int]:
    """Where each beginning of a path stands among all walks of its question that are that long, counted from 1.

    `trail` is the path's relations and entities, one after the other. Walks are those that a beam as wide as `beam` knows, and
    the path itself, which is kept whatever its place. Up to `beam`, a place is in the beam.
    """
    walks, hops, ranks = walker.begin(question), len(trail) // 2, []
    scores, followed = torch.zeros(1), 0  # the walk that follows the path
    for hop in range(hops):
        choices = walker.step(walks, question, is_last=hop == hops - 1, log_odds=log_odds)
        totals = ragged.spread(scores, choices.offsets) + choices.log_probs
        own = slice(int(choices.offsets[followed]), int(choices.offsets[followed + 1]))
        is_step = (choices.relations[own] == trail[2 * hop]) & (choices.tails[own] == trail[2 * hop + 1])
        place = own.start + int(is_step.nonzero()[0])
        ranks.append(int((totals > totals[place]).sum()) + 1)
        if hop < hops - 1:
            chosen = torch.topk(totals, min(beam, len(totals))).indices
            chosen = chosen if bool((chosen == place).any()) else torch.cat([chosen, torch.tensor([place])])
            followed = int((chosen == place).nonzero()[0])
            scores = totals[chosen]
            walks = walker.take(walks, choices, chosen, choices.walks[chosen])
    return ranks


def _offsets_of_questions(walk_questions: Tensor, offsets: Tensor, num_questions: int) -> Tensor:
    """Where the choices of each question begin and end, given those of each walk."""
    num_walks = torch.bincount(walk_questions, minlength=num_questions)
    return offsets[ragged.offsets_of(num_walks)]
