"""The best proofs of goals, exactly: a search with bounds in the semiring of max and min.

The score of a proof is the least of its similarities, that of a goal the largest score of its proofs. So a similarity that is
not above the best score so far ends a branch: no proof through it can be better. Rules are tried in the order of the similarity
of their heads to the goal's relation, and most are never opened. A rule with two atoms is searched from both ends.

Entities are those of the data; predicates are the relations of the data, then those of the rules. E entities, R relations, P
predicates, N rules, F facts, G goals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.triples import Triples
from hopwalk.propagation.graph import Floats, Int32s, Int64s, compiled

NONE = -1  # no rule, no atom, no fact


class FactIndex(NamedTuple):
    """Facts [F], and their numbers grouped by head and by tail: those of entity e at `offsets[e]:offsets[e + 1]`."""

    heads: Int32s
    relations: Int32s
    tails: Int32s
    head_offsets: Int64s
    head_order: Int64s
    tail_offsets: Int64s
    tail_order: Int64s


class RuleSet(NamedTuple):
    """Rules: the predicates of heads [N] and of one or two atoms [N, 2], and whether an atom has its variables swapped [N, 2].

    The second atom of a rule with one is `NONE`.
    """

    heads: Int32s
    atoms: Int32s
    is_swapped: NDArray[np.bool_]


class Workspace(NamedTuple):
    """Memory of a search; scores are 0 between goals."""

    near_scores: Floats  # [E] of the middle entity, from the head
    near_facts: Int64s  # [E]
    near: Int32s  # [E] the entities with such a score
    far_scores: Floats  # [E] from the tail
    far_facts: Int64s  # [E]
    far: Int32s  # [E]


class Proofs(NamedTuple):
    """The best proof of each goal: its score [G], its rule, `NONE` for a fact alone [G], and one or two facts [G, 2]."""

    scores: Floats
    rules: Int32s
    facts: Int64s


def index_facts(facts: Triples, num_entities: int) -> FactIndex:
    """The facts, grouped both ways."""
    grouped = []
    for ids in (facts.heads, facts.tails):
        order = np.argsort(ids, kind="stable")
        grouped += [np.searchsorted(ids[order], np.arange(num_entities + 1)), order]
    return FactIndex(facts.heads, facts.relations, facts.tails, *grouped)


def make_workspace(num_entities: int) -> Workspace:
    """An empty workspace."""
    ids, facts, scores = (np.zeros(num_entities, dtype=kind) for kind in (np.int32, np.int64, np.float32))
    return Workspace(scores, facts, ids, scores.copy(), facts.copy(), ids.copy())


def prove(
    goals: Int64s,
    hidden: Int64s,
    facts: FactIndex,
    rules: RuleSet,
    entity_similarities: Floats,
    predicate_similarities: Floats,
    work: Workspace,
    *,
    uses_facts: bool = True,
) -> Proofs:
    """The best proofs of goals (head, relation, tail) [G, 3], none of which uses the fact `hidden` [G] of its goal.

    `entity_similarities` is [E, E], `predicate_similarities` [P, R].
    """
    found = Proofs(
        np.zeros(len(goals), dtype=np.float32),
        np.full(len(goals), NONE, dtype=np.int32),
        np.full((len(goals), 2), NONE, dtype=np.int64),
    )
    order = np.argsort(-predicate_similarities[rules.heads], axis=0, kind="stable").T.astype(np.int32)  # [R, N]
    _prove(goals, hidden, facts, rules, order.copy(), entity_similarities, predicate_similarities, work, found, uses_facts)
    return found


@compiled
def _prove(goals, hidden, facts, rules, order, entities, predicates, work, found, uses_facts):
    for goal in range(len(goals)):
        head, relation, tail, own = goals[goal, 0], goals[goal, 1], goals[goal, 2], hidden[goal]
        best = np.float32(0.0)
        if uses_facts:
            best, fact = _best_fact(facts, own, predicates[relation], entities[head], entities[tail], best, np.float32(2.0))
            found.facts[goal, 0] = fact
        for place in range(order.shape[1]):
            rule = order[relation, place]
            most = predicates[rules.heads[rule], relation]
            if most <= best:
                break
            first, second = rules.atoms[rule, 0], rules.atoms[rule, 1]
            if second == NONE:
                start, end = (tail, head) if rules.is_swapped[rule, 0] else (head, tail)
                score, fact = _best_fact(facts, own, predicates[first], entities[start], entities[end], best, most)
                other = NONE
            else:
                score, fact, other = _best_pair(
                    facts,
                    own,
                    predicates[first],
                    predicates[second],
                    entities,
                    head,
                    tail,
                    rules.is_swapped[rule],
                    best,
                    most,
                    work,
                )
            if score > best:
                best = score
                found.rules[goal] = rule
                found.facts[goal, 0] = fact
                found.facts[goal, 1] = other
        found.scores[goal] = best


@compiled
def _best_fact(facts, own, relations, heads, tails, least, most):
    """The fact with the largest least similarity to an atom, at most `most`; a score of `least` and `NONE` if none is above."""
    best, found = least, np.int64(NONE)
    for entity in range(len(heads)):
        if heads[entity] <= best:
            continue
        for place in range(facts.head_offsets[entity], facts.head_offsets[entity + 1]):
            fact = facts.head_order[place]
            score = min(most, heads[entity], relations[facts.relations[fact]], tails[facts.tails[fact]])
            if score > best and fact != own:
                best, found = score, fact
                if best >= most:
                    return best, found
    return best, found


@compiled
def _reach(facts, own, relations, start, forward, least, scores, from_facts, reached):
    """The entities at the other end of facts that are similar to an atom with one known end; returns how many."""
    count = 0
    offsets = facts.head_offsets if forward else facts.tail_offsets
    order = facts.head_order if forward else facts.tail_order
    ends = facts.tails if forward else facts.heads
    for entity in range(len(start)):
        if start[entity] <= least:
            continue
        for place in range(offsets[entity], offsets[entity + 1]):
            fact = order[place]
            score = min(start[entity], relations[facts.relations[fact]])
            if score <= least or fact == own:
                continue
            end = ends[fact]
            if scores[end] == 0:
                reached[count] = end
                count += 1
            if score > scores[end]:
                scores[end] = score
                from_facts[end] = fact
    return count


@compiled
def _best_pair(facts, own, first, second, entities, head, tail, is_swapped, least, most, work):
    """The two facts with the largest least similarity to the atoms first(head, Z), second(Z, tail), and to each other in Z."""
    best, found, other = least, np.int64(NONE), np.int64(NONE)
    num_near = _reach(facts, own, first, entities[head], not is_swapped[0], best, work.near_scores, work.near_facts, work.near)
    num_far = 0
    if num_near:
        num_far = _reach(facts, own, second, entities[tail], is_swapped[1], best, work.far_scores, work.far_facts, work.far)
    for i in range(num_near):
        middle = work.near[i]
        near = min(most, work.near_scores[middle])
        if near > best:
            for j in range(num_far):
                score = min(near, entities[middle, work.far[j]], work.far_scores[work.far[j]])
                if score > best:
                    best, found, other = score, work.near_facts[middle], work.far_facts[work.far[j]]
    for i in range(num_near):
        work.near_scores[work.near[i]] = 0
    for j in range(num_far):
        work.far_scores[work.far[j]] = 0
    return best, found, other


@compiled
def score_tails(start, ends, is_inverse, facts, rules, entities, predicates, bodies, sums, scores):
    """Write the score of every entity as the tail of queries with one head, for relations `ends` [Q] to `scores` [Q, E].

    Queries for heads, `is_inverse`, walk the atoms of rules from the last to the first. `bodies` [N + 1, E] and `sums` [3, E] are
    memory.
    """
    for rule in range(len(rules.heads)):
        first, second = (0, 1) if rules.atoms[rule, 1] == NONE or not is_inverse else (1, 0)
        forward = is_inverse == rules.is_swapped[rule, first]
        if rules.atoms[rule, 1] == NONE:
            _follow(facts, predicates[rules.atoms[rule, first]], entities[start], forward, bodies[rule])
        else:
            _follow(facts, predicates[rules.atoms[rule, first]], entities[start], forward, sums[0])
            _soften(entities, sums[0], sums[1])
            forward = is_inverse == rules.is_swapped[rule, second]
            _follow(facts, predicates[rules.atoms[rule, second]], sums[1], forward, bodies[rule])
    for query in range(len(ends)):
        relation = ends[query]
        _follow(facts, predicates[relation], entities[start], not is_inverse, sums[2])
        for rule in range(len(rules.heads)):
            most = predicates[rules.heads[rule], relation]
            for entity in range(len(entities)):
                sums[2, entity] = max(sums[2, entity], min(most, bodies[rule, entity]))
        _soften(entities, sums[2], scores[query])


@compiled
def _follow(facts, relations, start, forward, ends):
    """The scores at the ends of facts, given those at their starts."""
    ends[:] = 0
    sources = facts.heads if forward else facts.tails
    targets = facts.tails if forward else facts.heads
    for fact in range(len(facts.heads)):
        score = min(start[sources[fact]], relations[facts.relations[fact]])
        if score > ends[targets[fact]]:
            ends[targets[fact]] = score


@compiled
def _soften(entities, scores, softened):
    """The scores of entities by their similarity to others that have scores."""
    softened[:] = 0
    for entity in range(len(entities)):
        score = scores[entity]
        if score > 0:
            for other in range(len(entities)):
                softened[other] = max(softened[other], min(score, entities[entity, other]))
