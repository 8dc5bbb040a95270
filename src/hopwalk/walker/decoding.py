"""From walks to ranked entities: beam search, and the log-probability of the paths that reach each entity."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hopwalk.config.settings import Settings
from hopwalk.data.triples import Ids
from hopwalk.learning.calibration import Calibration
from hopwalk.utils.parallel import on_all_threads
from hopwalk.walker.beam import Beam, beam_search
from hopwalk.walker.environment import Environment, Queries

WALKS_AT_ONCE, SCORES_AT_ONCE = 4096, 2**23  # bound the memory, whatever the beam and the number of entities


class Decoder:
    """Answers queries with walks. The score of an entity is the log-probability of the paths that reach it, as in the paper.

    `calibration` makes a probability of that score; None before it was fitted.
    """

    def __init__(self, environment: Environment, settings: Settings, calibration: Calibration | None = None) -> None:
        self.environment, self.settings, self.calibration = environment, settings, calibration

    @property
    def queries_at_once(self) -> int:
        """How many queries are decoded together."""
        by_entities = SCORES_AT_ONCE // max(self.environment.graph.num_entities, 1)
        return max(min(WALKS_AT_ONCE // self.settings.walk.beam, by_entities), 1)

    def search(self, queries: Queries, *, beam: int | None = None, blocks_known: bool = True) -> Beam:
        """The beam of some queries, as wide as the settings say or as given."""
        return beam_search(
            self.environment,
            queries,
            hops=self.settings.walk.hops,
            beam=beam or self.settings.walk.beam,
            pooling=self.settings.walker.pooling,
            blocks_known=blocks_known,
        )

    def scores(self, heads: Ids, relations: Ids) -> NDArray[np.float32]:
        """The scores of all entities, -inf where no path leads to an entity [Q, E]."""
        found = np.empty((len(heads), self.environment.graph.num_entities), dtype=np.float32)

        def decode(first: int) -> None:
            rows = slice(first, first + self.queries_at_once)
            found[rows] = self.search(Queries(_ids(heads[rows]), _ids(relations[rows]))).all_scores().numpy()

        on_all_threads(decode, range(0, len(heads), self.queries_at_once))
        return found


def _ids(ids: Ids) -> Tensor:
    return torch.from_numpy(ids.astype(np.int64))
