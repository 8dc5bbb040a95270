"""Training of a walker: batches of facts as queries, sampled walks, the policy gradient, evaluation on dev."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from hopwalk.config.settings import Settings
from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.errors import DataError
from hopwalk.learning.metrics import dev_metrics
from hopwalk.learning.optimizers import Optimizer
from hopwalk.learning.ranking import filtered_answers, sample_queries, split_queries
from hopwalk.learning.training import Learner, OnBatch
from hopwalk.walker.counting import DistinctCount
from hopwalk.walker.decoding import Decoder
from hopwalk.walker.environment import Environment, Queries, training_queries
from hopwalk.walker.forecast import queries_at_once
from hopwalk.walker.reinforce import Baseline, policy_loss
from hopwalk.walker.rollout import Rollouts, roll_out
from hopwalk.walker.shaping import Shaping


class WalkerLearner(Learner):
    """A policy, its training queries and its optimizer, and the values of the paper's figures."""

    name = "walker"
    remedy = "Set a smaller walker.learning_rate, or walker.gradient_clip=5."

    def __init__(self, environment: Environment, dataset: Dataset, settings: Settings, shaping: Shaping | None) -> None:
        if not len(dataset.train):
            raise DataError(f"{dataset.name} has no training queries")
        own = settings.walker
        self.model, self.seed = environment.policy, own.seed
        self.epochs, self.evaluate_every, self.patience = own.epochs, own.evaluate_every, own.patience
        self.mean_window = own.mean_window
        self._environment, self._settings, self._hops, self._shaping = environment, own, settings.walk.hops, shaping
        self._train = dataset.train
        self._dev = sample_queries(split_queries(dataset, "valid"), own.dev_queries)
        self._known = filtered_answers(dataset, "valid")
        # Facts unknown to training: walks that find them are false negatives (the paper's figure 2).
        self._hidden = KnownAnswers([dataset.valid, dataset.test], len(dataset.entities), len(dataset.relations))
        self._decoder = Decoder(environment, settings)
        self._optimizer = Optimizer(
            environment.policy,
            "adam",
            own.learning_rate,
            with_sparse_rows=frozenset(["entities"] if environment.policy.has_sparse_rows else []),
        )
        self._baseline = Baseline(own.baseline)
        self._paths = DistinctCount()
        self._at_once = queries_at_once(environment.graph, settings, has_scorer=shaping is not None)

    def learn(self, epoch: int, generator: torch.Generator, on_batch: OnBatch) -> dict[str, float]:
        """One pass over all queries; the means of loss, reward, entropy and hits."""
        settings = self._settings
        self._optimizer.set_learning_rate(settings.learning_rate * settings.learning_rate_decay ** (epoch - 1))
        num_batches = -(-len(self._train) // self._settings.batch_size)
        sums: dict[str, float] = {}
        order = torch.randperm(len(self._train), generator=generator)
        for number, rows in enumerate(order.tensor_split(num_batches), start=1):
            values = self.learn_batch(rows, generator, (epoch - 1) * num_batches + number - 1)
            for name, value in values.items():
                sums[name] = sums.get(name, 0.0) + value / num_batches
            on_batch(number, num_batches, values)
        sums["unique_paths"] = self._paths.estimate()
        return sums

    def learn_batch(self, rows: Tensor, generator: torch.Generator, step: int = 0) -> dict[str, float]:
        """One step of the optimizer after `step` others; a batch too large for `walker.memory_mb` is computed in parts."""
        values: dict[str, float] = {}
        beta = self.entropy_weight(step)
        for part in rows.tensor_split(-(-len(rows) // self._at_once)):
            share = len(part) / len(rows)
            for name, value in self._learn_part(part.numpy(), share, beta, generator).items():
                values[name] = values.get(name, 0.0) + share * value
        if self._settings.gradient_clip:
            self._optimizer.clip(self._settings.gradient_clip)
        self._optimizer.step()
        return values

    def entropy_weight(self, step: int) -> float:
        """β after so many steps of the optimizer."""
        settings = self._settings
        num_batches = -(-len(self._train) // settings.batch_size)
        decays = step / settings.entropy_decay_steps if settings.entropy_decay_steps else step // num_batches
        return float(settings.entropy * settings.entropy_decay**decays)

    def _learn_part(self, rows: Any, share: float, beta: float, generator: torch.Generator) -> dict[str, float]:
        settings, facts = self._settings, self._train[rows]
        queries = training_queries(self._environment.graph, facts.heads, facts.relations, facts.tails)
        f = self._shaping.f(queries.heads, queries.relations) if self._shaping else None
        rollouts = roll_out(
            self._environment,
            queries,
            hops=self._hops,
            rollouts=settings.rollouts,
            action_dropout_rate=settings.action_dropout,
            generator=generator,
        )
        loss, rewards = policy_loss(rollouts, queries, f, settings, self._baseline)
        entropy = torch.stack(rollouts.entropies).mean()
        total = loss - beta * entropy
        (share * total).backward()
        self._paths.add(torch.cat([queries.heads[rollouts.queries][:, None], rollouts.paths], dim=1))
        return {
            "loss": float(total.detach()),
            "reward": float(rewards.mean()),
            "entropy": float(entropy.detach()),
            **self._hits(rollouts, queries),
        }

    def _hits(self, rollouts: Rollouts, queries: Queries) -> dict[str, float]:
        """The share of walks that end at the answer, and of those that end at an answer known only to dev or test."""
        ends, rows = rollouts.paths[:, -1], rollouts.queries
        assert queries.answers is not None
        hits = ends == queries.answers[rows]
        hidden = self._hidden.contains(queries.heads[rows].numpy(), queries.relations[rows].numpy(), ends.numpy())
        return {"hits": float(hits.float().mean()), "false_negative_hits": float(hidden.mean())}

    def measure(self) -> dict[str, Any]:
        """The metrics of dev's tails."""
        return dev_metrics(self._decoder.scores, self._dev, self._known, self._environment.graph.num_entities)

    def state(self) -> dict[str, Tensor]:
        """The state of the optimizer, the baseline and the count of paths."""
        own = {"baseline": torch.tensor([self._baseline.average], dtype=torch.float64), "paths": self._paths.registers}
        return {f"optimizer.{name}": value for name, value in self._optimizer.state().items()} | own

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state."""
        self._baseline.average = float(state["baseline"][0])
        self._paths.registers = state["paths"].clone()
        prefix = "optimizer."
        self._optimizer.load_state({name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)})
