"""What the trainings of scorers have in common: tails of dev are ranked, and the optimizer is all that a checkpoint needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from hopwalk.data.dataset import Dataset
from hopwalk.learning.metrics import dev_metrics
from hopwalk.learning.optimizers import Optimizer
from hopwalk.learning.ranking import filtered_answers, sample_queries, split_queries
from hopwalk.learning.scorer import Scorer
from hopwalk.learning.training import Learner


class ScorerLearner(Learner):
    """A scorer, its optimizer, and the queries of dev; at most `dev_queries` of them, 0: all."""

    def __init__(self, scorer: Scorer, dataset: Dataset, optimizer: Optimizer, dev_queries: int = 0) -> None:
        self.model, self._ranked, self._optimizer = scorer, scorer, optimizer
        self._dev = sample_queries(split_queries(dataset, "valid"), dev_queries)
        self._known = filtered_answers(dataset, "valid")

    def measure(self) -> dict[str, Any]:
        """The metrics of tails on dev; empty without dev queries."""
        return dev_metrics(self._ranked.numpy_scores, self._dev, self._known, self._ranked.num_entities)

    def state(self) -> dict[str, Tensor]:
        """The state of the optimizer."""
        return self._optimizer.state()

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state that `state` returned."""
        self._optimizer.load_state(state)
