"""Training of NeuralLP and DRUM: a budget of queries, evaluated on dev."""

from __future__ import annotations

import torch

from hopwalk.config.settings import PropagationSettings, RuleSettings
from hopwalk.data.dataset import Dataset
from hopwalk.errors import DataError
from hopwalk.learning.optimizers import Optimizer
from hopwalk.learning.scorer_training import ScorerLearner
from hopwalk.learning.training import OnBatch
from hopwalk.propagation.queries import QuerySampler
from hopwalk.propagation.rule_scorer import RuleScorer


class RuleLearner(ScorerLearner):
    """NeuralLP or DRUM, its training queries and its optimizer. `name` is that of the model in the run's files.

    The loss is −log p(answer). The releases divide the training facts 3 : 1 into a graph and queries, so that no query finds its
    own fact. Here every fact is in the graph and is asked, and the edges of the fact that is asked are hidden from its query.

    Training is measured in queries. The budget is divided into `rules.evaluations` parts, each followed by an evaluation on dev;
    a part is what the common loop calls an epoch.
    """

    remedy = "Set a smaller rules.learning_rate."

    def __init__(self, name: str, scorer: RuleScorer, dataset: Dataset, settings: RuleSettings) -> None:
        if not len(dataset.train):
            raise DataError(f"{dataset.name} has no training queries")
        super().__init__(scorer, dataset, Optimizer(scorer, "adam", settings.learning_rate), settings.dev_queries)
        self.name, self.seed = name, settings.seed
        self.epochs, self.evaluate_every, self.patience = settings.evaluations, 1, settings.evaluations
        self._scorer, self._settings = scorer, settings
        sampled = PropagationSettings(hiding=settings.hiding, seed=settings.seed)
        self._sampler = QuerySampler(scorer.engine.graph, dataset, sampled)
        self._batches = -(-settings.queries // settings.batch_size)
        with torch.no_grad():
            scorer.model.mean_loss(scorer.engine, self._sampler.batch(0, 1))  # compiles the kernels, which is not training

    def learn(self, epoch: int, generator: torch.Generator, on_batch: OnBatch) -> dict[str, float]:
        """Train on one part of the budget; the mean loss and the number of queries so far."""
        first, last = (self._batches * part // self.epochs for part in (epoch - 1, epoch))
        total = 0.0
        for number in range(first, last):
            loss = self._step(number)
            total += loss
            on_batch(number - first + 1, last - first, {"loss": loss})
        return {"loss": total / max(last - first, 1), "queries": float(last * self._settings.batch_size)}

    def _step(self, number: int) -> float:
        """One step of the optimizer on batch `number`."""
        settings = self._settings
        progress = number / self._batches
        self._optimizer.set_learning_rate(settings.learning_rate * (1 - progress) ** settings.decay_power)
        tasks = self._sampler.batch(number * settings.batch_size, settings.batch_size)
        loss = self._scorer.model.mean_loss(self._scorer.engine, tasks)
        loss.backward()
        self._optimizer.clip(settings.gradient_clip)
        self._optimizer.step()
        return float(loss.detach())
