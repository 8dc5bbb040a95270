"""ConvE (Dettmers et al., 2018): a convolution over the reshaped head and relation, then a linear layer to the query vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from hopwalk.errors import SettingsError
from hopwalk.scorers.base import ProductScorer
from hopwalk.utils.randomness import dropout

if TYPE_CHECKING:
    from hopwalk.config.settings import ScorerSettings


class ConvE(ProductScorer):
    """`score = ReLU(vec(ReLU([head; relation] ⊛ filters)) W) · tail + bias[tail]`, with batch normalisation.

    The original has a norm at each of the three stages, dropout after the first, and dropout of whole feature maps. The layers
    that the paper's authors released have none on the feature maps, dropout before the first norm and of single features.
    """

    def __init__(self, num_entities: int, num_relations: int, settings: ScorerSettings, generator: torch.Generator) -> None:
        super().__init__(num_entities, num_relations, settings, generator)
        self.height = settings.embedding_height
        self.width, rest = divmod(settings.dimension, self.height)
        kernel = settings.kernel_size
        if rest or min(2 * self.height, self.width) < kernel:
            raise SettingsError(
                f"scorer.dimension = {settings.dimension} is not valid for ConvE: "
                f"it cannot be reshaped to {self.height} rows for a kernel of {kernel} x {kernel}",
                remedy="Set a multiple of scorer.embedding_height, large enough for scorer.kernel_size, e.g. 200 = 10 x 20.",
            )
        if settings.batch_size < 4:
            raise SettingsError(
                f"scorer.batch_size = {settings.batch_size} is not valid for ConvE: it is too small for batch normalisation",
                remedy="Set 4 or more.",
            )
        self.filters = nn.Conv2d(1, settings.num_filters, kernel)
        size = settings.num_filters * (2 * self.height - kernel + 1) * (self.width - kernel + 1)
        self.project = nn.Linear(size, settings.dimension)
        self.tail_bias = nn.Parameter(torch.zeros(num_entities))
        self.normalise_picture = nn.BatchNorm2d(1)
        if settings.conve_layers == "original":
            self.normalise_features = nn.BatchNorm2d(settings.num_filters)
        self.normalise_query = nn.BatchNorm1d(settings.dimension)
        for layer in (self.filters, self.project):
            bound = layer.weight[0].numel() ** -0.5  # PyTorch's own initialisation, with our generator
            for parameter in layer.parameters():
                parameter.data.uniform_(-bound, bound, generator=generator)

    def query_vectors(self, heads: Tensor, relations: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The query vectors of the embeddings of heads and relations [Q, D]."""
        settings, num_queries = self.settings, len(heads)
        stacked = torch.cat([heads, relations], dim=1).view(num_queries, 1, 2 * self.height, self.width)
        if settings.conve_layers == "original":
            stacked = dropout(self.normalise_picture(stacked), settings.input_dropout, generator)
            features = functional.relu(self.normalise_features(self.filters(stacked)))
            channels = (num_queries, settings.num_filters, 1, 1)
            features = dropout(features, settings.feature_dropout, generator, channels)
        else:
            stacked = self.normalise_picture(dropout(stacked, settings.input_dropout, generator))
            features = dropout(functional.relu(self.filters(stacked)), settings.feature_dropout, generator)
        query = dropout(self.project(features.flatten(1)), settings.hidden_dropout, generator)
        return functional.relu(self.normalise_query(query))
