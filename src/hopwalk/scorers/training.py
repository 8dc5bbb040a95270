"""Training of a scorer: batches of queries with all their answers, evaluated on dev."""

from __future__ import annotations

import torch

from hopwalk.config.settings import ScorerSettings
from hopwalk.data.dataset import Dataset
from hopwalk.errors import DataError
from hopwalk.learning.optimizers import Optimizer
from hopwalk.learning.scorer_training import ScorerLearner
from hopwalk.learning.training import OnBatch
from hopwalk.scorers.base import TrainableScorer
from hopwalk.scorers.queries import TrainingQueries


class EmbeddingLearner(ScorerLearner):
    """An embedding model, its training queries and its optimizer."""

    remedy = "Set a smaller scorer.learning_rate."

    def __init__(self, scorer: TrainableScorer, dataset: Dataset, settings: ScorerSettings) -> None:
        if not len(dataset.facts):
            raise DataError(f"{dataset.name} has no facts to train on", remedy="Give a data set with training facts.")
        super().__init__(scorer, dataset, Optimizer(scorer, settings.optimizer, settings.learning_rate))
        self.name, self.seed = settings.model, settings.seed
        self.epochs, self.evaluate_every, self.patience = settings.epochs, settings.evaluate_every, settings.patience
        self._scorer, self._batch_size = scorer, settings.batch_size
        self._learning_rate, self._learning_rate_decay = settings.learning_rate, settings.learning_rate_decay
        self._queries = TrainingQueries.of(dataset)

    def learn(self, epoch: int, generator: torch.Generator, on_batch: OnBatch) -> dict[str, float]:
        """Train one epoch; returns the mean loss."""
        self._optimizer.set_learning_rate(self._learning_rate * self._learning_rate_decay ** (epoch - 1))
        num_batches, total = self._queries.num_batches(self._batch_size), 0.0
        for number, batch in enumerate(self._queries.batches(self._batch_size, generator), start=1):
            loss = self._scorer.learn(batch, self._optimizer, generator)
            total += loss
            on_batch(number, num_batches, {"loss": loss})
        return {"loss": total / num_batches}
