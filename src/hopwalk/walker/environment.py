"""The environment of the walk (§2.2): states, legal actions with their probabilities, transitions.

Sampling, beam search and explanation all take the same `step`. Q queries, S walks, N actions of S walks together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from hopwalk.data.graph import Graph
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Triples
from hopwalk.walker import ragged
from hopwalk.walker.lstm import look_up
from hopwalk.walker.policy import PathEncoding, Policy

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_MARKS = 2**25  # bytes for marking known answers; above that they are looked up in a set


@dataclass(frozen=True)
class Queries:
    """`(heads, relations, ?)` [Q]; in training also their answers [Q] and the edges hidden from their walks [Q, H].

    In training the hidden edges are the edge of the fact that is asked and its inverse. They are positions in the graph; -1 where
    there is none.
    """

    heads: Tensor
    relations: Tensor
    answers: Tensor | None = None
    hidden_edges: Tensor | None = None

    def __len__(self) -> int:
        return len(self.heads)


@dataclass(frozen=True)
class States:
    """`s_t = (e_t, (e_s, r_q))` of S walks: the row of their query, the entity they are at, and the encoding of their path.

    Walks that took the same path share its encoding: `paths` are their rows in it, None where each walk has a row of its own.
    """

    queries: Tensor
    entities: Tensor
    encoding: PathEncoding
    paths: Tensor | None = None

    def __len__(self) -> int:
        return len(self.entities)


@dataclass(frozen=True)
class ActionSpace:
    """The actions `A_t` of S walks: those of walk s at `offsets[s]:offsets[s + 1]`, with log π(a | s) of each [N]."""

    offsets: Tensor
    relations: Tensor
    tails: Tensor
    log_probs: Tensor

    @property
    def walks(self) -> Tensor:
        """The walk of every action [N]."""
        return ragged.rows_of(self.offsets)

    def take(self, entries: Tensor, offsets: Tensor) -> ActionSpace:
        """Some of the actions, those of each walk next to each other, an action perhaps several times; gradients add up."""
        log_probs = look_up(self.log_probs[:, None], entries).squeeze(1)
        return ActionSpace(offsets, self.relations[entries], self.tails[entries], log_probs)


class Environment:
    """A graph, a policy that walks it, and the answers that are known."""

    def __init__(self, graph: Graph, policy: Policy, known: KnownAnswers) -> None:
        self.graph, self.policy, self.known = graph, policy, known
        self._offsets = torch.from_numpy(np.array(graph.offsets))
        self._relations = torch.from_numpy(np.array(graph.relations))
        self._tails = torch.from_numpy(np.array(graph.tails))

    def start(self, queries: Queries, generator: torch.Generator | None = None, *, rollouts: int = 1) -> States:
        """`rollouts` walks of each query, at its head. With a generator each has its own dropout; else encodings are shared."""
        rows = torch.arange(len(queries)).repeat_interleave(rollouts)
        if generator is not None:
            heads = queries.heads[rows]
            return States(rows, heads, self.policy.start(heads, generator))
        heads, paths = torch.unique(queries.heads, return_inverse=True)
        return States(rows, queries.heads[rows], self.policy.start(heads), paths[rows])

    def step(
        self,
        states: States,
        queries: Queries,
        *,
        is_last: bool,
        generator: torch.Generator | None = None,
        blocks_known: bool = True,
    ) -> ActionSpace:
        """The legal actions of every walk with log π of each."""
        offsets, edges = self._legal_edges(states, queries, blocks_known and is_last)
        relations, tails = self._relations.index_select(0, edges).long(), self._tails.index_select(0, edges).long()
        logits = self.policy.logits(
            states.encoding,
            states.paths,
            states.entities,
            queries.relations[states.queries],
            offsets,
            relations,
            tails,
            generator=generator,
        )
        return ActionSpace(offsets, relations, tails, ragged.log_softmax(logits, offsets))

    def transition(
        self,
        states: States,
        actions: ActionSpace,
        chosen: Tensor,
        *,
        walks: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> States:
        """The states after the chosen actions, which are positions among the N.

        `walks` are the walks that go on, the same one perhaps several times; None: each of them once, in order.

        At test time the LSTM reads every distinct path once, however many walks took it. A path is the triple (parent, relation,
        entity) packed into one integer, `(parent · R + relation) · E + entity`, so that one sort finds the distinct ones. With
        R = 4 (a relation, its inverse, stay and start) and E = 10, three walks that continue paths 0, 0 and 1:

            parent, relation, entity     packed     distinct     row
            (0, 1, 7)                     17         17           0
            (0, 1, 7)                     17         47           0
            (1, 0, 7)                     47                      1

        Two rows are read instead of three, and the parents of these, 17 // 10 // 4 = 0 and 47 // 10 // 4 = 1, are all that is
        kept of the encoding.
        """
        relations, entities = actions.relations[chosen], actions.tails[chosen]
        queries = states.queries if walks is None else states.queries[walks]
        parents = states.paths if walks is None else walks if states.paths is None else states.paths[walks]
        if generator is not None:
            return States(queries, entities, self.policy.encode_step(states.encoding, relations, entities, generator, parents))
        parents = torch.arange(len(entities)) if parents is None else parents
        num_relations, num_entities = len(self.policy.relations), self.graph.num_entities
        packed = (parents * num_relations + relations) * num_entities + entities
        distinct, paths = torch.unique(packed, return_inverse=True)
        kept, parents = torch.unique(distinct // num_entities // num_relations, return_inverse=True)
        encoding = self.policy.encode_step(
            states.encoding.rows(kept), distinct // num_entities % num_relations, distinct % num_entities, rows=parents
        )
        return States(queries, entities, encoding, paths)

    def _legal_edges(self, states: States, queries: Queries, blocks_known: bool) -> tuple[Tensor, Tensor]:
        """Offsets [S+1] and positions in the graph [N] of the legal edges.

        The hidden edges of a query are not legal for its walks. With `blocks_known`, neither are edges to known answers other
        than the one that is asked (the paper's footnote 4). A walk that has no legal edge stays.
        """
        starts, ends = self._offsets[states.entities], self._offsets[states.entities + 1]
        offsets = ragged.offsets_of(ends - starts)
        edges = ragged.ranges(starts, offsets)
        is_legal = torch.ones(len(edges), dtype=torch.bool)
        if blocks_known:
            torch.logical_not(self._is_other_answer(states, queries, offsets, edges), out=is_legal)
        if queries.hidden_edges is not None:
            hidden = queries.hidden_edges[states.queries]  # [S, K]
            is_here = (hidden >= starts[:, None]) & (hidden < ends[:, None])
            is_legal[(hidden + (offsets[:-1] - starts)[:, None])[is_here]] = False
        if bool(is_legal.all()):
            return offsets, edges
        counts = ragged.row_sums(is_legal.to(torch.int32), offsets).long()
        stuck = counts == 0
        if bool(stuck.any()):
            is_legal[offsets[1:][stuck] - 1] = True  # the last edge of an entity is its stay edge
            counts[stuck] = 1
        return ragged.offsets_of(counts), edges.index_select(0, ragged.places_of(is_legal))

    def _is_other_answer(self, states: States, queries: Queries, offsets: Tensor, edges: Tensor) -> Tensor:
        """Whether each edge leads to a known answer other than the one that is asked [N]."""
        tails = self._tails.index_select(0, edges)
        num_entities = self.graph.num_entities
        if len(queries) * num_entities <= MOST_MARKS:  # mark the answers of each query, and look the marks up
            starts, answers = self.known.answers(queries.heads.numpy(), queries.relations.numpy())
            rows = np.repeat(np.arange(len(queries)), np.diff(starts))
            marks = torch.zeros(len(queries) * num_entities, dtype=torch.bool)
            marks[torch.from_numpy(rows * num_entities + answers)] = True
            if queries.answers is not None:
                marks[torch.arange(len(queries)) * num_entities + queries.answers] = False
            return marks.index_select(0, ragged.repeat_per_row(states.queries * num_entities, offsets).add_(tails))
        heads = ragged.repeat_per_row(queries.heads[states.queries], offsets)
        relations = ragged.repeat_per_row(queries.relations[states.queries], offsets)
        is_known = torch.from_numpy(self.known.contains(heads.numpy(), relations.numpy(), tails.numpy()))
        if queries.answers is not None:
            is_known &= tails != ragged.repeat_per_row(queries.answers[states.queries], offsets)
        return is_known


def training_queries(graph: Graph, heads: NDArray[np.int32], relations: NDArray[np.int32], tails: NDArray[np.int32]) -> Queries:
    """Queries with their answers, and with the edge of each fact and its inverse hidden."""
    inverse = graph.relation_ids.inverse(relations)
    edges = np.stack([graph.edge_positions(heads, relations, tails), graph.edge_positions(tails, inverse, heads)], axis=1)
    ids = [torch.from_numpy(array.astype(np.int64)) for array in (heads, relations, tails)]
    return Queries(ids[0], ids[1], ids[2], torch.from_numpy(edges))


def hidden_edges(graph: Graph, facts: Sequence[Triples]) -> NDArray[np.int64]:
    """The positions of the edges of some facts of each query, and of their inverses [Q, H]; -1 where there are fewer."""
    found = np.full((len(facts), 2 * max(map(len, facts), default=0)), -1)
    for row, part in enumerate(facts):
        inverse = graph.relation_ids.inverse(part.relations)
        found[row, : len(part)] = graph.edge_positions(part.heads, part.relations, part.tails)
        found[row, len(part) : 2 * len(part)] = graph.edge_positions(part.tails, inverse, part.heads)
    return found
