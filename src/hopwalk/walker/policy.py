"""The policy network (§2.3): embeddings, an LSTM that encodes the path so far, and logits of the actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from hopwalk.config.settings import WalkerSettings
from hopwalk.data.relation_ids import RelationIds
from hopwalk.utils.products import linear
from hopwalk.utils.randomness import dropout
from hopwalk.walker.edge_scores import edge_scores
from hopwalk.walker.lstm import LSTMLayer, State, look_up

MOST_DENSE_ENTITIES = 30_000
MOST_PRECOMPUTED = 2**26  # numbers in a table of one layer's projections of all entities: 256 MB


@dataclass(frozen=True)
class PathEncoding:
    """The LSTM's states after S paths: for every layer `(h, c)`, [S, H] each."""

    layers: tuple[State, ...]

    @property
    def top(self) -> Tensor:
        """h_t of the last layer [S, H]."""
        return self.layers[-1][0]

    def rows(self, rows: Tensor) -> PathEncoding:
        """The encoding of some of the paths."""
        return PathEncoding(tuple((h[rows], c[rows]) for h, c in self.layers))


class Policy(nn.Module):
    """`π(a_t | s_t) = softmax(A_t × W2 ReLU(W1 [e_t; h_t; r_q]))` (equation 4); the rows of A_t are actions `[r; e']`.

    The columns of W1 stand in the order `[r_q; e_t; h_t]` here, so that `_project` reads (relation, entity) pairs the same way
    for W1 and for the LSTM. Without `uses_entities`, actions are relations only, as in MINERVA without entity embeddings.
    """

    def __init__(self, num_entities: int, num_relations: int, settings: WalkerSettings) -> None:
        super().__init__()
        self.relation_ids = RelationIds(num_relations)
        self.settings = settings
        self._is_rounded = settings.precision == "bfloat16"
        # On large graphs a step must not touch every row of the table: gradients are sparse.
        self.has_sparse_rows = settings.uses_entities and num_entities > MOST_DENSE_ENTITIES
        width, history = settings.dimension, settings.history_dimension
        self.entities = nn.Parameter(torch.empty(num_entities if settings.uses_entities else 0, width))
        self.relations = nn.Parameter(torch.empty(self.relation_ids.num_all, width))
        num_parts = 2 if settings.uses_entities else 1
        sizes = [num_parts * width] + [history] * (settings.history_layers - 1)
        self.encoder = nn.ModuleList(LSTMLayer(size, history, is_rounded=self._is_rounded) for size in sizes)
        self.w1 = nn.Linear(num_parts * width + history, num_parts * width)
        self.w2 = nn.Linear(num_parts * width, num_parts * width)
        self._projections: dict[nn.Linear, tuple[Tensor, Tensor]] = {}
        self._initialise(torch.Generator().manual_seed(settings.seed))

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        """Xavier initialisation of every matrix; biases are zero."""
        for parameter in self.parameters():
            if parameter.dim() == 2 and len(parameter):
                nn.init.xavier_normal_(parameter, generator=generator)
            else:
                parameter.zero_()

    def train(self, mode: bool = True) -> Policy:
        """Set training or evaluation mode. Precomputed projections are dropped: the parameters may change."""
        self._projections.clear()
        return super().train(mode)

    def start(self, heads: Tensor, generator: torch.Generator | None = None) -> PathEncoding:
        """`h_0 = LSTM(0, [r_0; e_s])` (equation 2), e_s being the heads."""
        return self.encode_step(None, torch.full_like(heads, self.relation_ids.start_id), heads, generator)

    def encode_step(
        self,
        encoding: PathEncoding | None,
        relations: Tensor,
        entities: Tensor,
        generator: torch.Generator | None = None,
        rows: Tensor | None = None,
    ) -> PathEncoding:
        """`h_t = LSTM(h_{t−1}, a_{t−1})` (equation 3), the actions being `[relations; entities]`; no encoding: of the empty path.

        `rows` is the path of the encoding that each walk continues; None: each its own.
        """
        first, *others = cast("list[LSTMLayer]", list(self.encoder))
        incoming = self._project(first.input, relations, entities, generator)
        before: Sequence[State | None] = encoding.layers if encoding else [None] * len(self.encoder)
        layers = [first(incoming, before[0], rows)]
        between = 0.0 if self.settings.dropout_masks == "edge" else self.settings.hidden_dropout
        for number, layer in enumerate(others, start=1):
            incoming = self._linear(dropout(layers[-1][0], between, generator), layer.input.weight, layer.input.bias)
            layers.append(layer(incoming, before[number], rows))
        return PathEncoding(tuple(layers))

    def logits(
        self,
        encoding: PathEncoding,
        paths: Tensor | None,
        entities: Tensor,
        query_relations: Tensor,
        offsets: Tensor,
        edge_relations: Tensor,
        edge_tails: Tensor,
        *,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """`A_t × W2 ReLU(W1 [e_t; h_t; r_q])` of equation 4 [N], for the actions of S walks at their entities.

        `paths` is the row of each walk in the encoding; None: each its own.
        """
        w1_of_history = self.w1.weight[:, -self.settings.history_dimension :]
        history = self._linear(encoding.top, w1_of_history)
        history = history if paths is None else look_up(history, paths)
        state = self._project(self.w1, query_relations, entities, generator).add_(history)
        hidden = dropout(functional.relu(state), self.settings.hidden_dropout, generator)
        if self.settings.dropout_masks == "walk":
            # Dropout of an action's embedding equals dropout of the vector it is multiplied with: one mask for a walk's actions.
            action_query = dropout(self._linear(hidden, self.w2.weight, self.w2.bias), self.settings.embedding_dropout, generator)
            return self._products(action_query, offsets, edge_relations, edge_tails)
        action_query = dropout(self._linear(hidden, self.w2.weight, self.w2.bias), self.settings.hidden_dropout, generator)
        if generator is None or self.settings.embedding_dropout == 0:
            return self._products(action_query, offsets, edge_relations, edge_tails)
        return self._noisy_products(action_query, offsets, edge_relations, edge_tails, generator)

    def _noisy_products(
        self, vectors: Tensor, offsets: Tensor, edge_relations: Tensor, edge_tails: Tensor, generator: torch.Generator
    ) -> Tensor:
        """`_products` with dropout of the embeddings of every action, each by a mask of its own [N].

        The product with a masked vector is a sum of many independent terms, so nearly normal. It is drawn from the normal
        distribution of its mean and variance: masks would need the vectors of all actions, hundreds of megabytes per step.
        """
        rate = self.settings.embedding_dropout
        means = self._products(vectors, offsets, edge_relations, edge_tails)
        squares = self._products(vectors.square(), offsets, edge_relations, edge_tails, squared=True)
        deviations = squares.clamp_min(1e-12).mul(rate / (1 - rate)).sqrt()
        return means + deviations * torch.randn(len(means), generator=generator)

    def _products(
        self, vectors: Tensor, offsets: Tensor, edge_relations: Tensor, edge_tails: Tensor, *, squared: bool = False
    ) -> Tensor:
        """`[r; e'] · vectors[s]` of every action of every walk s [N]; `squared`: with the squares of `[r; e']`."""
        width = self.settings.dimension
        relations = self.relations.square() if squared else self.relations
        products = edge_scores(vectors[:, :width], relations, offsets, edge_relations)
        if self.settings.uses_entities:
            table, rows = self._entity_rows(edge_tails)
            products = products + edge_scores(vectors[:, width:], table.square() if squared else table, offsets, rows)
        return products

    def _entity_rows(self, entities: Tensor) -> tuple[Tensor, Tensor]:
        """A table of embeddings and the row of each entity in it: the whole table, or of a large one the rows needed."""
        if not self.has_sparse_rows:
            return self.entities, entities
        distinct, rows = torch.unique(entities, return_inverse=True)
        return look_up(self.entities, distinct, is_sparse=True), rows

    def _project(self, layer: nn.Linear, relations: Tensor, entities: Tensor, generator: torch.Generator | None) -> Tensor:
        """`[r; e]` times the first columns of the layer's weight, plus its bias, with dropout of `[r; e]`; or of `r` alone."""
        has_entities, width = self.settings.uses_entities, self.settings.dimension
        if not self.training and not torch.is_grad_enabled() and layer.out_features * len(self.entities) <= MOST_PRECOMPUTED:
            of_relations, of_entities = self._precomputed(layer)
            found = look_up(of_relations, relations)
            return found.add_(look_up(of_entities, entities)) if has_entities else found
        parts = [look_up(self.relations, relations)]
        if has_entities:
            parts.append(look_up(self.entities, entities, is_sparse=self.has_sparse_rows))
        vectors = dropout(torch.cat(parts, dim=1), self.settings.embedding_dropout, generator)
        return self._linear(vectors, layer.weight[:, : len(parts) * width], layer.bias)

    def _linear(self, vectors: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """The product of a layer; with `walker.precision` "bfloat16" rounded in training."""
        return linear(vectors, weight, bias, is_rounded=self._is_rounded and self.training)

    def _precomputed(self, layer: nn.Linear) -> tuple[Tensor, Tensor]:
        """The layer's projections of every relation, with its bias, and of every entity; kept until the next training step."""
        if layer not in self._projections:
            width = self.settings.dimension
            of_relations = functional.linear(self.relations, layer.weight[:, :width], layer.bias)
            of_entities = (
                functional.linear(self.entities, layer.weight[:, width : 2 * width]) if len(self.entities) else self.entities
            )
            self._projections[layer] = of_relations, of_entities
        return self._projections[layer]
