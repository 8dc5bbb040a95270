"""The rules of a trained prover: every learnt predicate stands for the relation nearest to it."""

from __future__ import annotations

from dataclasses import dataclass

from hopwalk.scorers.ntp.model import NtpScorer
from hopwalk.scorers.ntp.proofs import NONE


@dataclass(frozen=True)
class DecodedRule:
    """A rule `head(X, Y) ⇐ body` by ids of relations and inverses, and its confidence.

    The confidence is the least similarity of a predicate to the relation that it stands for: the largest score that the rule can
    give.
    """

    head: int
    body: tuple[int, ...]
    confidence: float


def decoded_rules(scorer: NtpScorer, relation: int, *, num_rules: int = 10) -> list[DecodedRule]:
    """The rules for a relation or an inverse, those of highest confidence first; of copies with the same body the best."""
    ids, rules = scorer.relation_ids, scorer.rules
    similarities = scorer.similarities()[1]
    is_inverse = bool(ids.is_inverse(relation))
    plain = ids.inverse(relation) if is_inverse else relation
    best: dict[tuple[int, ...], float] = {}
    for head, atoms, is_swapped in zip(rules.heads.tolist(), rules.atoms.tolist(), rules.is_swapped.tolist(), strict=True):
        confidence, body = float(similarities[head, plain]), []
        for atom, swapped in zip(atoms, is_swapped, strict=True):
            if atom == NONE:
                continue
            nearest = int(similarities[atom].argmax())
            confidence = min(confidence, float(similarities[atom, nearest]))
            body.append(ids.inverse(nearest) if swapped else nearest)
        if is_inverse:
            body = [ids.inverse(step) for step in reversed(body)]
        best[tuple(body)] = max(best.get(tuple(body), 0.0), confidence)
    ordered = sorted(best.items(), key=lambda item: (-item[1], item[0]))
    return [DecodedRule(relation, body, confidence) for body, confidence in ordered[:num_rules]]
