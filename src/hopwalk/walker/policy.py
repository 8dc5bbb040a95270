"""The policy network (§2.3): embeddings, an LSTM that reads the path so far, and scores of the edges that can be taken next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from hopwalk.config.settings import WalkerSettings
from hopwalk.data.relation_ids import RelationIds
from hopwalk.utils.randomness import dropout
from hopwalk.walker.edge_scores import edge_scores
from hopwalk.walker.lstm import LSTMLayer, look_up

MOST_DENSE_ENTITIES = 30_000
MOST_READ_AHEAD = 2**26  # numbers in a table of what a layer makes of every entity, to answer faster: 256 MB


@dataclass(frozen=True)
class Memory:
    """What the LSTM knows of S paths: for every layer the output and the cell, [S, H] each."""

    layers: tuple[tuple[Tensor, Tensor], ...]

    @property
    def top(self) -> Tensor:
        """The encoding h_t of the paths [S, H]."""
        return self.layers[-1][0]

    def some(self, rows: Tensor) -> Memory:
        """The memory of some of the paths."""
        return Memory(tuple((output[rows], cell[rows]) for output, cell in self.layers))


class Policy(nn.Module):
    """`π(a | s) = softmax(A · W2 ReLU(W1 [e; h; r_q]))` over the edges that lead on, an edge being `[r; e']`.

    With `uses_entities` off, edges are known by their relation only, as in MINERVA without entity embeddings.
    """

    def __init__(self, num_entities: int, num_relations: int, settings: WalkerSettings) -> None:
        super().__init__()
        self.relation_ids = RelationIds(num_relations)
        self.settings = settings
        # On large graphs a step must not touch every row of the table: gradients hold the rows of entities that were met.
        self.has_sparse_rows = settings.uses_entities and num_entities > MOST_DENSE_ENTITIES
        width, history = settings.dimension, settings.history_dimension
        self.entities = nn.Parameter(torch.empty(num_entities if settings.uses_entities else 0, width))
        self.relations = nn.Parameter(torch.empty(self.relation_ids.num_all, width))
        num_parts = 2 if settings.uses_entities else 1
        sizes = [num_parts * width] + [history] * (settings.history_layers - 1)
        self.encoder = nn.ModuleList(LSTMLayer(size, history) for size in sizes)
        self.hidden = nn.Linear(num_parts * width + history, num_parts * width)  # W1
        self.output = nn.Linear(num_parts * width, num_parts * width)  # W2
        self.guidance = nn.Parameter(torch.tensor(settings.guidance)) if settings.guidance else None
        self._kept: dict[nn.Linear, tuple[Tensor, Tensor]] = {}
        self._initialise(torch.Generator().manual_seed(settings.seed))

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        """Xavier's initialisation of every matrix; biases are zero."""
        for parameter in self.parameters():
            if parameter.dim() == 2 and len(parameter):
                nn.init.xavier_normal_(parameter, generator=generator)
            elif parameter is not self.guidance:
                parameter.zero_()

    def train(self, mode: bool = True) -> Policy:
        """Learn from now on, or answer; what was read ahead is forgotten, for the parameters will have changed."""
        self._kept.clear()
        return super().train(mode)

    def begin(self, heads: Tensor, generator: torch.Generator | None = None) -> Memory:
        """`h_0 = LSTM(0, [r_0; e_s])` for walks that begin at the heads."""
        nothing = self.relations.new_zeros(len(heads), self.settings.history_dimension)
        memory = Memory(((nothing, nothing),) * len(self.encoder))
        return self.advance(memory, torch.full_like(heads, self.relation_ids.start_id), heads, generator)

    def advance(
        self,
        memory: Memory,
        relations: Tensor,
        entities: Tensor,
        generator: torch.Generator | None = None,
        rows: Tensor | None = None,
    ) -> Memory:
        """`h_t = LSTM(h_{t-1}, [r; e])` after every walk took an edge of that relation to that entity.

        `rows` says which of the paths in memory each walk continues; None: each its own.
        """
        first, *others = cast("list[LSTMLayer]", list(self.encoder))
        incoming = self._read(first.input, relations, entities, generator)
        layers = [first(incoming, *memory.layers[0], rows)]
        for number, layer in enumerate(others, start=1):
            incoming = layer.input(dropout(layers[-1][0], self.settings.hidden_dropout, generator))
            layers.append(layer(incoming, *memory.layers[number], rows))
        return Memory(tuple(layers))

    def logits(
        self,
        memory: Memory,
        paths: Tensor | None,
        entities: Tensor,
        asked: Tensor,
        offsets: Tensor,
        edge_relations: Tensor,
        edge_tails: Tensor,
        *,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The score of every edge [N] that S walks can take from their entities, asked for a relation each.

        `paths` says which of the paths in memory each walk has gone; None: each its own.
        """
        by_history = self.hidden.weight[:, -self.settings.history_dimension :]  # the last columns of W1
        of_history = functional.linear(memory.top, by_history)
        of_history = of_history if paths is None else look_up(of_history, paths)
        state = self._read(self.hidden, asked, entities, generator).add_(of_history)
        hidden = dropout(functional.relu(state), self.settings.hidden_dropout, generator)
        # Dropout of an edge's embedding is the same as dropout of what it is multiplied with: one mask for all edges of a walk.
        wanted = dropout(self.output(hidden), self.settings.embedding_dropout, generator)
        width = self.settings.dimension
        scores = edge_scores(wanted[:, :width], self.relations, offsets, edge_relations)
        if self.settings.uses_entities:
            table, rows = self._entity_rows(edge_tails)
            scores = scores + edge_scores(wanted[:, width:], table, offsets, rows)
        return scores

    def _entity_rows(self, entities: Tensor) -> tuple[Tensor, Tensor]:
        """A table with the embeddings of these entities, and the row of each: the whole, or what is needed of a large one."""
        if not self.has_sparse_rows:
            return self.entities, entities
        distinct, rows = torch.unique(entities, return_inverse=True)
        return look_up(self.entities, distinct, is_sparse=True), rows

    def _read(self, layer: nn.Linear, relations: Tensor, entities: Tensor, generator: torch.Generator | None) -> Tensor:
        """What the layer makes of `[r; e]`, with dropout, by the first columns of its weight; or of `r` alone."""
        has_entities, width = self.settings.uses_entities, self.settings.dimension
        if not self.training and not torch.is_grad_enabled() and layer.out_features * len(self.entities) <= MOST_READ_AHEAD:
            of_relations, of_entities = self._read_ahead(layer)
            found = look_up(of_relations, relations)
            return found.add_(look_up(of_entities, entities)) if has_entities else found
        parts = [look_up(self.relations, relations)]
        if has_entities:
            parts.append(look_up(self.entities, entities, is_sparse=self.has_sparse_rows))
        vectors = dropout(torch.cat(parts, dim=1), self.settings.embedding_dropout, generator)
        return functional.linear(vectors, layer.weight[:, : len(parts) * width], layer.bias)

    def _read_ahead(self, layer: nn.Linear) -> tuple[Tensor, Tensor]:
        """What the layer makes of every relation, with its bias, and of every entity; kept until the policy learns again."""
        if layer not in self._kept:
            width = self.settings.dimension
            of_relations = functional.linear(self.relations, layer.weight[:, :width], layer.bias)
            of_entities = (
                functional.linear(self.entities, layer.weight[:, width : 2 * width]) if len(self.entities) else self.entities
            )
            self._kept[layer] = of_relations, of_entities
        return self._kept[layer]
