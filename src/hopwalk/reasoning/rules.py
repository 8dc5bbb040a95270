"""Rules that paths are instances of, and how often they hold in the graph.

A path `steroid —affects→ cell ←affects— eicosanoid` that answers `interacts_with` is an instance of the rule
`interacts_with(X,Y) ⇐ affects(X,A), affects(Y,A)`. Its support is the number of known facts that it predicts, its
confidence their share of all pairs that the body connects. Walks that come back to X do not count, nor does a fact as its own
reason: `interacts_with(X,A), isa(A,B), isa(Y,B)` with A = Y says nothing.
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
MOST_PAIRS = 1_000_000  # after so many predictions no more are counted
HEADS_AT_ONCE = 128
MOST_BYTES = 2**28  # of adjacency matrices that are kept
MOST_KEPT = 20_000  # rules whose counts are kept


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

    @property
    def holds(self) -> bool:
        """Whether a known fact follows from the rule."""
        return self.support > 0

    def __str__(self) -> str:
        if not self.predictions:
            return "connects nothing else in the graph"
        part = ", in a random part of the graph" if self.is_sampled else ""
        rate = f"right {_percent(self.confidence)} of the time" if self.holds else "never right"
        return f"{rate}, {self.support:,} of {self.predictions:,}{part}"


def _percent(share: float) -> str:
    """A confidence for people: whole per cents, with a decimal near 0 and 1.

    >>> _percent(0.5819), _percent(0.004), _percent(0.9996), _percent(1.0), _percent(0.0001)
    ('58 %', '0.4 %', '> 99.9 %', '100 %', '< 0.1 %')
    """
    value = 100 * share
    if 0 < value < 0.1:
        return "< 0.1 %"
    if 99.9 < value < 100:
        return "> 99.9 %"
    return f"{value:.1f} %" if value < 1 or 99 <= value < 100 else f"{value:.0f} %"


def anyburl_line(rule: Rule, evidence: Evidence) -> str:
    """The rule in AnyBURL's text format: predictions, support, confidence and rule, separated by tabs."""
    text = str(rule).replace(" ⇐ ", " <= ")
    return f"{evidence.predictions}\t{evidence.support}\t{evidence.confidence:.6f}\t{text}"


class RuleCounter:
    """Counter of how often rules hold among the facts of a data set. It keeps what it has counted."""

    def __init__(self, facts: Triples, dataset: Dataset) -> None:
        self._facts = facts
        self._ids = {dataset.relations.name(id_): id_ for id_ in reversed(range(len(dataset.relations)))}
        self._size = len(dataset.entities)
        self._matrices: dict[tuple[str, bool], Any] = {}
        self._counted: dict[tuple[Rule, int, int], Evidence] = {}

    @cached_property
    def _order(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.argsort(self._facts.relations, kind="stable")

    def _directed(self, name: str, is_inverse: bool) -> Any:
        """The adjacency matrix of the relation or its inverse, sparse [E, E]."""
        from scipy import sparse

        if (name, is_inverse) not in self._matrices:
            relation, sorted_relations = self._ids[name], self._facts.relations[self._order]
            rows = self._order[slice(*np.searchsorted(sorted_relations, [relation, relation + 1]))]
            pairs = self._facts.heads[rows], self._facts.tails[rows]
            ones = np.ones(len(rows), np.int32)
            made = sparse.csr_array((ones, pairs[::-1] if is_inverse else pairs), shape=(self._size, self._size))
            if sum(_bytes(matrix) for matrix in self._matrices.values()) + _bytes(made) > MOST_BYTES:
                self._matrices.clear()  # each has a place for every entity
            self._matrices[name, is_inverse] = made
        return self._matrices[name, is_inverse]

    def count(self, rule: Rule, *, most_heads: int = MOST_HEADS, seed: int = 0) -> Evidence:
        """The evidence for a rule, counted from at most `most_heads` entities."""
        key = rule, most_heads, seed
        if key not in self._counted:
            if len(self._counted) >= MOST_KEPT:
                self._counted.clear()
            self._counted[key] = self._count(rule, most_heads, seed)
        return self._counted[key]

    def _count(self, rule: Rule, most_heads: int, seed: int) -> Evidence:
        if not rule.body:
            known = self._directed(rule.head, rule.is_head_inverse).diagonal()
            return Evidence(self._size, int(known.astype(bool).sum()), False)
        starts = np.flatnonzero(np.diff(self._directed(*rule.body[0]).indptr))
        order = np.random.default_rng(seed).permutation(starts)[:most_heads]
        predictions, support, done = 0, 0, 0
        while done < len(order) and predictions < MOST_PAIRS:
            part = order[done : done + HEADS_AT_ONCE]
            found = self._count_from(rule, part)
            predictions, support, done = predictions + found[0], support + found[1], done + len(part)
        return Evidence(predictions, support, done < len(starts))

    def _count_from(self, rule: Rule, starts: np.ndarray[Any, Any]) -> tuple[int, int]:
        """The pairs that the body connects, from some entities X, and how many of them are known."""
        head = (rule.head, rule.is_head_inverse)
        reached = self._walk(_without(self._directed(*rule.body[0])[starts], starts), rule, starts)
        rows, tails = reached.multiply(self._directed(*head)[starts].astype(bool)).nonzero()
        if rule.body[0] != head:
            return int(reached.nnz), len(rows)
        support = 0  # walks that begin with the known fact itself do not count
        for first in range(0, len(rows), HEADS_AT_ONCE):
            some = slice(first, first + HEADS_AT_ONCE)
            heads, ends = starts[rows[some]], tails[some]
            others = _without(_without(self._directed(*head)[heads], heads), ends)
            again = self._walk(others, rule, heads)
            support += int(again[np.arange(len(heads)), ends].sum())
        return int(reached.nnz) - len(rows) + support, support

    def _walk(self, reached: Any, rule: Rule, starts: np.ndarray[Any, Any]) -> Any:
        """The entities at the end of the body, given those after its first step; walks never come back to their start."""
        for name, is_inverse in rule.body[1:]:
            reached = _without(reached.astype(np.int32) @ self._directed(name, is_inverse), starts)
        return reached


def _without(matrix: Any, columns: np.ndarray[Any, Any]) -> Any:
    """The places of a sparse matrix that are not 0, without one column of each row; as booleans."""
    from scipy import sparse

    places = matrix.tocoo()
    rows, found = places.coords
    is_kept = (found != columns[rows]) & (places.data != 0)
    kept = rows[is_kept], found[is_kept]
    return sparse.csr_array((np.ones(len(kept[0]), np.bool_), kept), shape=matrix.shape)


def _bytes(matrix: Any) -> int:
    return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)
