"""Training of NTP-λ: facts against corrupted ones, evaluated on dev."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from hopwalk.config.settings import NtpSettings
from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.errors import DataError
from hopwalk.learning.optimizers import Optimizer
from hopwalk.learning.scorer_training import ScorerLearner
from hopwalk.learning.training import OnBatch
from hopwalk.propagation.graph import Int64s
from hopwalk.scorers.ntp.model import NtpScorer
from hopwalk.scorers.ntp.proofs import NONE

ATTEMPTS = 20  # to draw a corrupted fact that is not known; then a known one is taken
CORRUPTED = ((0,), (2,), (0, 2), (0, 2))  # columns of corrupted facts, by turns
EPSILON = 1e-6  # scores are this far from 0 and 1 in the loss


class NtpLearner(ScorerLearner):
    """The prover and ComplEx, their facts and their optimizer. `name` is that of the model in the run's files.

    Facts are proved without themselves. Each is joined by `ntp.corruptions` facts with another head, another tail, or both.
    The loss is the sum of the binary cross-entropies of both models.
    """

    remedy = "Set a smaller ntp.learning_rate."

    def __init__(self, name: str, scorer: NtpScorer, dataset: Dataset, settings: NtpSettings) -> None:
        if not len(dataset.facts):
            raise DataError(f"{dataset.name} has no facts to train on", remedy="Give a data set with training facts.")
        super().__init__(scorer, dataset, Optimizer(scorer, "adam", settings.learning_rate))
        self.name, self.seed = name, settings.seed
        self.epochs, self.evaluate_every, self.patience = settings.epochs, settings.evaluate_every, settings.patience
        self._scorer, self._settings = scorer, settings
        self._facts = dataset.facts.array().astype(np.int64)
        self._known_facts = KnownAnswers([dataset.facts], len(dataset.entities), len(dataset.relations))
        scorer.best_proofs(self._facts[:1], np.zeros(1, dtype=np.int64))  # compiles the search, which is not training

    def learn(self, epoch: int, generator: torch.Generator, on_batch: OnBatch) -> dict[str, float]:
        """Train one epoch; the mean loss of a fact and its corruptions, and the share of facts that a rule proves best."""
        settings, num_facts = self._settings, len(self._facts)
        self._optimizer.set_learning_rate(settings.learning_rate * settings.learning_rate_decay ** (epoch - 1))
        order = torch.randperm(num_facts, generator=generator).numpy()
        corrupted = self._corrupted(order, np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator))))
        num_batches, total, by_rule = -(-num_facts // settings.batch_size), 0.0, 0
        for number in range(num_batches):
            rows = slice(number * settings.batch_size, (number + 1) * settings.batch_size)
            loss, num_by_rule = self._step(order[rows], corrupted[rows])
            total, by_rule = total + loss, by_rule + num_by_rule
            on_batch(number + 1, num_batches, {"loss": loss / len(order[rows])})
        return {"loss": total / num_facts, "by_rule": by_rule / num_facts}

    def _corrupted(self, order: Int64s, generator: np.random.Generator) -> Int64s:
        """The corruptions of facts [N, C, 3]: of the head, of the tail, and two of both, by turns; none is known if possible."""
        found = np.repeat(self._facts[order][:, None], self._settings.corruptions, axis=1)
        for turn in range(self._settings.corruptions):
            columns, rows = CORRUPTED[turn % len(CORRUPTED)], np.arange(len(order))
            for _ in range(ATTEMPTS):
                for column in columns:
                    found[rows, turn, column] = generator.integers(0, self._scorer.num_entities, len(rows))
                rows = rows[self._known_facts.contains(*found[rows, turn].astype(np.int32).T)]
        return found

    def _step(self, rows: Int64s, corrupted: Int64s) -> tuple[float, int]:
        """One step of the optimizer; the loss of the batch, and how many of its facts a rule proves best."""
        settings, scorer = self._settings, self._scorer
        goals = np.concatenate([self._facts[rows], corrupted.reshape(-1, 3)])
        hidden = np.full(len(goals), NONE, dtype=np.int64)
        hidden[: len(rows)] = rows
        targets = torch.zeros(len(goals))
        targets[: len(rows)] = 1
        proofs = scorer.best_proofs(goals, hidden)
        scores = scorer.scores_of_proofs(goals, proofs).clamp(EPSILON, 1 - EPSILON)
        loss = functional.binary_cross_entropy(scores, targets, reduction="sum")
        logits = scorer.complex_scores(torch.from_numpy(goals))
        loss = loss + settings.complex_weight * functional.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
        penalty = scorer.entities.square().sum() + scorer.predicates.square().sum()
        (loss + settings.l2 / 2 * penalty).backward()
        for parameter in scorer.parameters():
            if parameter.grad is not None:
                parameter.grad.clamp_(-settings.gradient_clip, settings.gradient_clip)
        self._optimizer.step()
        return float(loss.detach()), int((proofs.rules[: len(rows)] != NONE).sum())
