"""One step of a walk, for sampling, beam search and explanation alike: which edges can be taken, and how likely each is.

Q questions, S walks, N edges that S walks can take next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from hopwalk.data.graph import Graph
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.walker import ragged
from hopwalk.walker.policy import Memory, Policy

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_MARKS = 2**25  # bytes to mark known answers in; where that is too little they are looked up in a set


@dataclass(frozen=True)
class Questions:
    """What is asked: `(heads, relations, ?)` [Q]. In training the answer is given too, and edges that may not be taken [Q, K].

    These are the edge of the answer and its inverse, as positions in the graph, and with shortcuts hidden all that join head
    and answer; -1 where there is none.
    """

    heads: Tensor
    relations: Tensor
    answers: Tensor | None = None
    hidden_edges: Tensor | None = None

    def __len__(self) -> int:
        return len(self.heads)


@dataclass(frozen=True)
class Walks:
    """Where S walks are: the row of their question, the entity, and what the policy remembers of the path.

    Walks of several questions may have come the same way; `paths` are their rows in the memory, None if each has its own.
    """

    questions: Tensor
    entities: Tensor
    memory: Memory
    paths: Tensor | None = None

    def __len__(self) -> int:
        return len(self.entities)


@dataclass(frozen=True)
class Choices:
    """The edges that each of S walks can take next, those of walk s at `offsets[s]:offsets[s + 1]`, with log π of each [N]."""

    offsets: Tensor
    relations: Tensor
    tails: Tensor
    log_probs: Tensor

    @property
    def walks(self) -> Tensor:
        """The walk that each edge continues [N]."""
        return ragged.rows_of(self.offsets)


class Walker:
    """A policy on a graph. Walks begin, look at their choices, and take one of them; T times."""

    def __init__(self, graph: Graph, policy: Policy, known: KnownAnswers) -> None:
        self.graph, self.policy, self.known = graph, policy, known
        self._offsets = torch.from_numpy(np.array(graph.offsets))
        self._relations = torch.from_numpy(np.array(graph.relations))
        self._tails = torch.from_numpy(np.array(graph.tails))

    def begin(self, questions: Questions, generator: torch.Generator | None = None) -> Walks:
        """One walk for each question, at its head. What is dropped at random differs between walks; else they share a memory."""
        rows = torch.arange(len(questions))
        if generator is not None:
            return Walks(rows, questions.heads, self.policy.begin(questions.heads, generator))
        heads, paths = torch.unique(questions.heads, return_inverse=True)
        return Walks(rows, questions.heads, self.policy.begin(heads), paths)

    def step(
        self,
        walks: Walks,
        questions: Questions,
        *,
        is_last: bool,
        log_odds: Tensor | None = None,
        generator: torch.Generator | None = None,
        blocks_known: bool = True,
    ) -> Choices:
        """The legal edges of every walk and their probabilities; `log_odds` [Q, E] are the scorer's, for a guided policy."""
        offsets, edges = self._legal_edges(walks, questions, blocks_known and is_last)
        relations, tails = self._relations.index_select(0, edges).long(), self._tails.index_select(0, edges).long()
        asked = questions.relations[walks.questions]
        logits = self.policy.logits(
            walks.memory, walks.paths, walks.entities, asked, offsets, relations, tails, generator=generator
        )
        if is_last and self.policy.guidance is not None and log_odds is not None:
            starts = walks.questions * log_odds.shape[1]
            opinions = log_odds.view(-1).index_select(0, ragged.spread(starts, offsets).add_(tails))
            logits = logits + self.policy.guidance * opinions
        return Choices(offsets, relations, tails, ragged.log_softmax(logits, offsets))

    def take(
        self, walks: Walks, choices: Choices, chosen: Tensor, rows: Tensor | None, generator: torch.Generator | None = None
    ) -> Walks:
        """The walks after taking the chosen edges, positions among the N.

        `rows` are the walks they continue, several of them the same one maybe; None: each walk goes on with one edge.
        """
        relations, entities = choices.relations[chosen], choices.tails[chosen]
        asking = walks.questions if rows is None else walks.questions[rows]
        parents = walks.paths if rows is None else rows if walks.paths is None else walks.paths[rows]
        if generator is not None:
            return Walks(asking, entities, self.policy.advance(walks.memory, relations, entities, generator, parents))
        # The policy reads each way that was gone once, however many walks went it, and forgets ways that no walk goes on.
        parents = torch.arange(len(entities)) if parents is None else parents
        sizes = len(self.policy.relations), self.graph.num_entities
        ways, paths = torch.unique((parents * sizes[0] + relations) * sizes[1] + entities, return_inverse=True)
        before, entities_read = ways // sizes[1], ways % sizes[1]
        kept, parents = torch.unique(before // sizes[0], return_inverse=True)
        memory = self.policy.advance(walks.memory.some(kept), before % sizes[0], entities_read, rows=parents)
        return Walks(asking, entities, memory, paths)

    def _legal_edges(self, walks: Walks, questions: Questions, blocks_known: bool) -> tuple[Tensor, Tensor]:
        """Offsets [S+1] and positions in the graph [N] of the edges that may be taken.

        Hidden edges may not be taken by their own question. Where known answers are blocked, they may
        not be reached, apart from the answer that is asked. If nothing is left, the walk may stay.
        """
        starts, ends = self._offsets[walks.entities], self._offsets[walks.entities + 1]
        offsets = ragged.offsets_of(ends - starts)
        edges = ragged.ranges(starts, offsets)
        is_legal = torch.ones(len(edges), dtype=torch.bool)
        if blocks_known:
            torch.logical_not(self._is_other_answer(walks, questions, offsets, edges), out=is_legal)
        if questions.hidden_edges is not None:
            hidden = questions.hidden_edges[walks.questions]  # [S, K]
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

    def _is_other_answer(self, walks: Walks, questions: Questions, offsets: Tensor, edges: Tensor) -> Tensor:
        """Whether each edge leads to a known answer that is not the one asked [N]."""
        tails = self._tails.index_select(0, edges)
        num_entities = self.graph.num_entities
        if len(questions) * num_entities <= MOST_MARKS:  # mark the answers of each question, and look the marks up
            starts, answers = self.known.answers(questions.heads.numpy(), questions.relations.numpy())
            rows = np.repeat(np.arange(len(questions)), np.diff(starts))
            marks = torch.zeros(len(questions) * num_entities, dtype=torch.bool)
            marks[torch.from_numpy(rows * num_entities + answers)] = True
            if questions.answers is not None:
                marks[torch.arange(len(questions)) * num_entities + questions.answers] = False
            return marks.index_select(0, ragged.spread(walks.questions * num_entities, offsets).add_(tails))
        heads = ragged.spread(questions.heads[walks.questions], offsets)
        relations = ragged.spread(questions.relations[walks.questions], offsets)
        is_known = torch.from_numpy(self.known.contains(heads.numpy(), relations.numpy(), tails.numpy()))
        if questions.answers is not None:
            is_known &= tails != ragged.spread(questions.answers[walks.questions], offsets)
        return is_known


def training_questions(
    graph: Graph,
    heads: NDArray[np.int32],
    relations: NDArray[np.int32],
    tails: NDArray[np.int32],
    *,
    hides_shortcuts: bool = False,
) -> Questions:
    """Questions with their answers, and the edges that their walks may not take."""
    if hides_shortcuts:
        edges = np.concatenate([graph.edges_between(heads, tails), graph.edges_between(tails, heads)], axis=1)
    else:
        inverse = graph.relation_ids.inverse(relations)
        edges = np.stack([graph.edge_positions(heads, relations, tails), graph.edge_positions(tails, inverse, heads)], axis=1)
    ids = [torch.from_numpy(array.astype(np.int64)) for array in (heads, relations, tails)]
    return Questions(ids[0], ids[1], ids[2], torch.from_numpy(edges))
