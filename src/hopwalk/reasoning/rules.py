"""Rules that paths are instances of, and how often they hold in the graph.

A path `steroid —affects→ cell ←affects— eicosanoid` that answers `interacts_with` is an instance of the rule
`interacts_with(X,Y) ⇐ affects(X,A), affects(Y,A)`. Its support is the number of known facts that it predicts, its
confidence their share of all pairs that the body connects.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Triples

VARIABLES = "ABCDEFGH"  # between X and Y; a walk has at most 8 hops
MOST_HEADS = 2000


@dataclass(frozen=True, repr=False)
class Rule:
    """`head(X,Y) ⇐ body`: relations by name, and whether each is walked against its arrow."""

    head: str
    body: tuple[tuple[str, bool], ...]
    is_head_inverse: bool = False

    def __str__(self) -> str:
        return f"{self._atom(self.head, self.is_head_inverse, 'X', 'Y')} ⇐ {self._body_text()}"

    def __repr__(self) -> str:
        return f"Rule({self})"

    def _body_text(self) -> str:
        places = ["X", *VARIABLES[: len(self.body) - 1], "Y"] if self.body else []
        steps = zip(self.body, places, places[1:], strict=False)
        return ", ".join(self._atom(name, is_inverse, one, other) for (name, is_inverse), one, other in steps) or "X = Y"

    @staticmethod
    def _atom(name: str, is_inverse: bool, one: str, other: str) -> str:
        return f"{name}({other},{one})" if is_inverse else f"{name}({one},{other})"


@dataclass(frozen=True)
class Evidence:
    """The evidence for a rule: the pairs that its body connects, and the known facts among them.

    Counted from all entities, or if `is_sampled` from a random sample of those where the body can start.
    """

    predictions: int
    support: int
    is_sampled: bool

    @property
    def confidence(self) -> float:
        """The share of predictions that are known facts; 0 where the body connects nothing."""
        return self.support / self.predictions if self.predictions else 0.0

    def __str__(self) -> str:
        part = " in a random part of the graph" if self.is_sampled else ""
        return f"holds {self.support:,} of {self.predictions:,} times ({100 * self.confidence:.0f} %){part}"


def anyburl_line(rule: Rule, evidence: Evidence) -> str:
    """The rule in AnyBURL's text format: predictions, support, confidence and rule, separated by tabs."""
    text = str(rule).replace(" ⇐ ", " <= ")
    return f"{evidence.predictions}\t{evidence.support}\t{evidence.confidence:.6f}\t{text}"


class RuleCounter:
    """Counter of how often rules hold among the facts of a data set."""

    def __init__(self, facts: Triples, dataset: Dataset) -> None:
        self._facts = facts
        self._ids = {dataset.relations.name(id_): id_ for id_ in reversed(range(len(dataset.relations)))}
        self._size = len(dataset.entities)
        self._matrices: dict[int, Any] = {}

    @cached_property
    def _order(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.argsort(self._facts.relations, kind="stable")

    def _matrix(self, relation: int) -> Any:
        """The adjacency matrix of the relation, sparse [E, E]."""
        from scipy import sparse

        if relation not in self._matrices:
            sorted_relations = self._facts.relations[self._order]
            rows = self._order[slice(*np.searchsorted(sorted_relations, [relation, relation + 1]))]
            pairs = self._facts.heads[rows], self._facts.tails[rows]
            self._matrices[relation] = sparse.csr_array((np.ones(len(rows), np.int32), pairs), shape=(self._size, self._size))
        return self._matrices[relation]

    def _directed(self, name: str, is_inverse: bool) -> Any:
        matrix = self._matrix(self._ids[name])
        return matrix.T.tocsr() if is_inverse else matrix

    def count(self, rule: Rule, *, most_heads: int = MOST_HEADS, seed: int = 0) -> Evidence:
        """The evidence for a rule, counted from at most `most_heads` entities."""
        head = self._directed(rule.head, rule.is_head_inverse)
        if not rule.body:
            return Evidence(self._size, int(head.diagonal().astype(bool).sum()), False)
        first = self._directed(*rule.body[0])
        starts = np.flatnonzero(np.diff(first.indptr))
        is_sampled = len(starts) > most_heads
        if is_sampled:
            starts = np.sort(np.random.default_rng(seed).choice(starts, most_heads, replace=False))
        reached = first[starts].astype(bool)
        for name, is_inverse in rule.body[1:]:
            reached = (reached.astype(np.int32) @ self._directed(name, is_inverse)).astype(bool)
        known = head[starts].astype(bool)
        return Evidence(int(reached.nnz), int(reached.multiply(known).nnz), is_sampled)
