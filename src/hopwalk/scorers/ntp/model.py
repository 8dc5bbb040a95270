"""NTP-λ (Rocktäschel and Riedel, 2017): soft unification with facts, learnt rules, and ComplEx on the same embeddings.

The similarity of two embeddings is `exp(−‖a − b‖)`. A goal `r(h, t)` is proved by a fact, or by a rule whose atoms are proved by
facts; the score of a proof is the least similarity of all that it unifies, that of the goal the largest of its proofs. ComplEx
shapes the embeddings: it has a loss of its own in training.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from hopwalk.config.settings import NtpSettings
from hopwalk.data.triples import Triples
from hopwalk.errors import DataError, SettingsError, did_you_mean
from hopwalk.learning.scorer import Scorer
from hopwalk.propagation.graph import Floats, Int64s
from hopwalk.scorers.complex import complex_product
from hopwalk.scorers.ntp.proofs import NONE, Proofs, RuleSet, index_facts, make_workspace, prove, score_tails

MOST_ENTITIES = 5000  # similarities of all pairs of entities are held: 100 MB
LEAST = 1e-30  # the score that stands for no proof at all
TEMPLATES = {  # name → the body of r1(X, Y), as predicates of two atoms at most, and whether the first has its variables swapped
    "same": ((0,), False),
    "inverse": ((0,), True),
    "transitive": ((0, 0), False),
    "chain": ((0, 1), False),
}


@dataclass(frozen=True)
class Proof:
    """The best proof of a goal: its score, its rule or None, and the facts (head, relation, tail) that it unifies with."""

    score: float
    rule: int | None
    facts: tuple[tuple[int, int, int], ...]


class NtpScorer(Scorer):
    """The prover and ComplEx. Scores are logarithms of the prover's, or of the mean or the larger of both probabilities."""

    def __init__(self, num_entities: int, num_relations: int, settings: NtpSettings, facts: Triples) -> None:
        super().__init__(num_entities, num_relations)
        _require_small(num_entities)
        if settings.dimension % 2:
            raise SettingsError(
                f"ntp.dimension = {settings.dimension} is not valid: ComplEx needs pairs of numbers", remedy="Set an even number."
            )
        self.settings = settings
        self.rules, num_predicates = build_rules(settings.templates, settings.copies, num_relations)
        generator, scale = torch.Generator().manual_seed(settings.seed), settings.initial_scale
        self.entities = nn.Parameter(torch.empty(num_entities, settings.dimension).uniform_(-scale, scale, generator=generator))
        self.predicates = nn.Parameter(
            torch.empty(num_predicates, settings.dimension).uniform_(-scale, scale, generator=generator)
        )
        self._facts, self._work = index_facts(facts, num_entities), make_workspace(num_entities)

    @torch.no_grad()
    def similarities(self) -> tuple[Floats, Floats]:
        """Those of all pairs of entities [E, E], and of predicates with relations [P, R]; 1 for the same."""
        relations = self.predicates[: self.relation_ids.num_relations]
        of_entities = torch.exp(-torch.cdist(self.entities, self.entities)).fill_diagonal_(1.0)
        of_predicates = torch.exp(-torch.cdist(self.predicates, relations)).fill_diagonal_(1.0)
        return of_entities.numpy(), of_predicates.numpy()

    def best_proofs(self, goals: Int64s, hidden: Int64s, *, uses_facts: bool = True) -> Proofs:
        """The best proofs of goals (head, relation, tail) [G, 3] without the fact `hidden` [G], `NONE` for all facts."""
        return prove(goals, hidden, self._facts, self.rules, *self.similarities(), self._work, uses_facts=uses_facts)

    def scores_of_proofs(self, goals: Int64s, proofs: Proofs) -> Tensor:
        """The scores of proofs with their gradients, which only the weakest similarity of each has [G]."""
        predicate_pairs, entity_pairs = self._unified(goals, proofs)
        similarities = torch.cat([_similarity(self.predicates, predicate_pairs), _similarity(self.entities, entity_pairs)], dim=1)
        return torch.where(torch.from_numpy(proofs.facts[:, 0] != NONE), similarities.amin(dim=1), torch.zeros(()))

    def _unified(self, goals: Int64s, proofs: Proofs) -> tuple[Tensor, Tensor]:
        """The pairs of predicates and of entities that proofs unify [G, 3, 2] each; a pair of the same stands for none."""
        heads, relations, tails = goals.T
        rules, facts = self.rules, self._facts
        has_rule, has_two = proofs.rules != NONE, proofs.facts[:, 1] != NONE
        first, second = proofs.facts.T
        is_swapped = has_rule & _at(rules.is_swapped[:, 0], proofs.rules)
        near, far = facts.heads[first], facts.tails[first]
        near, far = np.where(is_swapped, far, near), np.where(is_swapped, near, far)
        rule_head = np.where(has_rule, _at(rules.heads, proofs.rules), relations)
        one = np.where(has_rule, _at(rules.atoms[:, 0], proofs.rules), relations)
        two = np.where(has_two, _at(rules.atoms[:, 1], proofs.rules), 0)
        predicates = [(rule_head, relations), (one, facts.relations[first]), (two, np.where(has_two, facts.relations[second], 0))]
        middle = np.where(has_two, facts.heads[second], far)
        entities = [(heads, near), (far, middle), (np.where(has_two, facts.tails[second], far), tails)]
        return _pairs(predicates), _pairs(entities)

    def complex_scores(self, goals: Tensor) -> Tensor:
        """The scores of ComplEx for goals [G]."""
        heads, relations = functional.embedding(goals[:, 0], self.entities), functional.embedding(goals[:, 1], self.predicates)
        vectors = complex_product(heads, relations)
        return (vectors * functional.embedding(goals[:, 2], self.entities)).sum(dim=1)

    def score_all_tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The score of every entity as the tail of every query [Q, E]."""
        ids, ranks_by = self.relation_ids, self.settings.ranks_by
        is_inverse = np.asarray(ids.is_inverse(relations.numpy()))
        plain = np.where(is_inverse, ids.inverse(relations.numpy()), relations.numpy())
        found = torch.from_numpy(self._prove_all(heads.numpy(), plain, is_inverse))
        if ranks_by != "prover":
            other = torch.sigmoid(self._complex_of_all(heads, torch.from_numpy(plain), torch.from_numpy(is_inverse)))
            found = (found + other) / 2 if ranks_by == "mean" else torch.maximum(found, other)
        return found.clamp_min(LEAST).log()

    def _prove_all(self, heads: Int64s, relations: Int64s, is_inverse: NDArray[np.bool_]) -> Floats:
        """The prover's scores of all entities [Q, E]; the bodies of rules are followed once for each head."""
        similarities, num_entities = self.similarities(), self.num_entities
        bodies = np.zeros((len(self.rules.heads), num_entities), dtype=np.float32)
        sums = np.zeros((3, num_entities), dtype=np.float32)
        found = np.empty((len(heads), num_entities), dtype=np.float32)
        for side in (False, True):
            for head in np.unique(heads[is_inverse == side]).tolist():
                rows = np.flatnonzero((heads == head) & (is_inverse == side))
                scores = np.empty((len(rows), num_entities), dtype=np.float32)
                score_tails(head, relations[rows], side, self._facts, self.rules, *similarities, bodies, sums, scores)
                found[rows] = scores
        return found

    def _complex_of_all(self, heads: Tensor, relations: Tensor, is_inverse: Tensor) -> Tensor:
        """The scores of ComplEx [Q, E]: heads of (?, r, t) by the conjugate of the relation."""
        vectors = self.predicates[relations]
        real, imaginary = vectors.chunk(2, dim=1)
        vectors = torch.where(is_inverse[:, None], torch.cat([real, -imaginary], dim=1), vectors)
        return complex_product(self.entities[heads], vectors) @ self.entities.T

    def score_triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """The score of every triple [N]; every distinct query is proved once."""
        distinct, rows = torch.stack([heads, relations], dim=1).unique(dim=0, return_inverse=True)
        return self.score_all_tails(distinct[:, 0], distinct[:, 1])[rows, tails]

    def proof(self, head: int, relation: int, tail: int, *, hides_itself: bool = False) -> Proof | None:
        """The best proof of a fact, None if there is none; with `hides_itself` not by the fact itself."""
        ids, facts = self.relation_ids, self._facts
        if ids.is_inverse(relation):
            head, relation, tail = tail, ids.inverse(relation), head
        same = np.flatnonzero((facts.heads == head) & (facts.relations == relation) & (facts.tails == tail))
        hidden = same[:1] if hides_itself and len(same) else np.array([NONE])
        found = self.best_proofs(np.array([[head, relation, tail]]), hidden.astype(np.int64))
        used = [int(fact) for fact in found.facts[0] if fact != NONE]
        if not used:
            return None
        columns = [(int(facts.heads[fact]), int(facts.relations[fact]), int(facts.tails[fact])) for fact in used]
        return Proof(float(found.scores[0]), None if found.rules[0] == NONE else int(found.rules[0]), tuple(columns))


def build_rules(templates: str, copies: int, num_relations: int) -> tuple[RuleSet, int]:
    """So many copies of each template, each with predicates of its own, and the number of all predicates."""
    names = [name.strip() for name in templates.split(",") if name.strip()]
    heads, atoms, is_swapped, first = [], [], [], num_relations
    for name in names:
        if name not in TEMPLATES:
            remedy = did_you_mean(name, TEMPLATES) or f"Templates are {', '.join(TEMPLATES)}."
            raise SettingsError(f"ntp.templates: there is no template {name!r}", remedy=remedy)
        body, swaps = TEMPLATES[name]
        width = 2 + max(body)
        own = np.arange(first, first + width * copies).reshape(width, copies)
        heads.append(own[0])
        second = own[1 + body[1]] if len(body) > 1 else np.full(copies, NONE)
        atoms.append(np.stack([own[1], second], axis=1))
        is_swapped.append(np.tile([swaps, False], (copies, 1)))
        first += width * copies
    empty = np.empty((0, 2), dtype=np.int64)
    rules = RuleSet(
        np.concatenate([*heads, empty[:, 0]]).astype(np.int32),
        np.concatenate([*atoms, empty]).astype(np.int32),
        np.concatenate([*is_swapped, empty.astype(np.bool_)]),
    )
    return rules, first


def _similarity(table: Tensor, pairs: Tensor) -> Tensor:
    """The similarities of pairs of rows [G, K], given their numbers [G, K, 2]; 1 without a gradient for the same row."""
    left, right = functional.embedding(pairs, table).unbind(dim=2)
    distances = (left - right).square().sum(dim=2).clamp_min(1e-12).sqrt()
    return torch.where(pairs[..., 0] == pairs[..., 1], torch.ones(()), torch.exp(-distances))


def _at(values: NDArray[np.generic], rows: NDArray[np.integer]) -> NDArray[np.generic]:
    """The values at rows, of which some may be `NONE`, and 0 if there are no values at all."""
    return values[rows] if len(values) else np.zeros(len(rows), dtype=values.dtype)


def _pairs(columns: list[tuple[NDArray[np.generic], NDArray[np.generic]]]) -> Tensor:
    stacked = [np.stack(pair, axis=1).astype(np.int64) for pair in columns]
    return torch.from_numpy(np.stack(stacked, axis=1))


def _require_small(num_entities: int) -> None:
    if num_entities > MOST_ENTITIES:
        raise DataError(
            f"NTP-λ compares all pairs of entities, and {num_entities:,} are too many",
            remedy=f"Use it on graphs of at most {MOST_ENTITIES:,} entities, or train neural-lp, whose rules scale.",
        )
