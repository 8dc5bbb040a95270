"""Training of a propagation model: a budget of queries, a learning rate that falls to zero over it, averaged weights, dev."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hopwalk.config.settings import PropagationSettings
from hopwalk.data.dataset import Dataset
from hopwalk.errors import DataError
from hopwalk.learning.callbacks import Forecast
from hopwalk.learning.metrics import as_dev_metrics, dev_metrics
from hopwalk.learning.processes import ALONE, Processes
from hopwalk.learning.ranking import Ranks, filtered_answers, rank_answers, sample_queries, split_queries
from hopwalk.learning.training import Learner, OnBatch
from hopwalk.propagation.forecast import SECONDS_TO_MEASURE, memory_of_training, require_memory_to_train
from hopwalk.propagation.queries import QuerySampler, some_tasks
from hopwalk.propagation.scorer import PropagationScorer


class PropagationLearner(Learner):
    """A propagation model, its training queries and its optimizer.

    Training is measured in queries. The budget is divided into `propagation.evaluations` parts, each followed by an evaluation on
    dev; a part is what the common loop calls an epoch. What is evaluated and kept are the averaged weights.
    """

    name = "propagation"
    remedy = "Set a smaller propagation.learning_rate."

    def __init__(
        self, scorer: PropagationScorer, dataset: Dataset, settings: PropagationSettings, processes: Processes = ALONE
    ) -> None:
        if not len(dataset.train):
            raise DataError(f"{dataset.name} has no training queries")
        require_memory_to_train(settings, scorer.relation_ids.num_directed)
        processes.require_parts(settings.batch_size)
        self.model, self.seed, self._processes = scorer, settings.seed, processes
        self.epochs, self.evaluate_every, self.patience = settings.evaluations, 1, settings.evaluations
        self._scorer, self._settings = scorer, settings
        self._sampler = QuerySampler(scorer.engine.graph, dataset, settings)
        self._dev = sample_queries(split_queries(dataset, "valid"), settings.dev_queries)
        self._known = filtered_answers(dataset, "valid")
        self._batches = -(-settings.queries // settings.batch_size)
        parameters = list(scorer.model.parameters())
        self._optimizer = torch.optim.AdamW(
            parameters, lr=settings.learning_rate, betas=(0.9, 0.99), weight_decay=settings.weight_decay, fused=True
        )
        self._live = [
            parameter.detach().clone() for parameter in parameters
        ]  # the weights that learn, while the model has the mean

        with torch.no_grad():
            scorer.model.mean_loss(scorer.engine, self._sampler.batch(0, 1))  # compiles the kernels, which is not training

    def learn(self, epoch: int, generator: torch.Generator, on_batch: OnBatch) -> dict[str, float]:
        """Train on one part of the budget; the mean loss and the number of queries so far."""
        first, last = (self._batches * part // self.epochs for part in (epoch - 1, epoch))
        averaged = [parameter.detach().clone() for parameter in self._scorer.model.parameters()]
        self._put(self._live)
        self._processes.adopt([parameter.detach() for parameter in self._scorer.model.parameters()])
        total = 0.0
        for number in range(first, last):
            loss = self._step(number)
            self._average(averaged, number)
            total += loss
            on_batch(number - first + 1, last - first, {"loss": loss})
        self._live = [parameter.detach().clone() for parameter in self._scorer.model.parameters()]
        if self._settings.averaging:
            self._put(averaged)
        return {"loss": total / max(last - first, 1), "queries": float(last * self._settings.batch_size)}

    def time_batches(self, seconds: float) -> float:
        """The mean seconds of a training batch, over at least one batch and about so many seconds; nothing is learnt from it."""
        before = [parameter.detach().clone() for parameter in self._scorer.model.parameters()]
        processes, self._processes = self._processes, ALONE  # the others do not measure
        self._step(0)  # makes the optimizer's state, and workspaces that are large enough
        started, count = time.perf_counter(), 0
        while not count or time.perf_counter() - started < seconds:
            self._step((count + 1) % self._batches)
            count += 1
        found = (time.perf_counter() - started) / count
        self._put(before)
        self._optimizer.state.clear()
        self._processes = processes
        return found / processes.count

    def forecast(self) -> Forecast:
        """The memory of training, and the time between two evaluations on dev, from a few batches."""
        settings, engine = self._settings, self._scorer.engine
        seconds = self.time_batches(SECONDS_TO_MEASURE)
        num_known = len(self._known) + self._sampler.num_known
        memory = memory_of_training(self._scorer.model, engine, settings.batch_size, num_known)
        return Forecast(memory, settings.batch_size, seconds * self._batches / self.epochs)

    def _step(self, number: int) -> float:
        """One step of the optimizer on batch `number`."""
        settings, processes = self._settings, self._processes
        progress = number / self._batches
        for group in self._optimizer.param_groups:
            warm_up = min(1.0, (number + 1) / settings.warm_up)
            group["lr"] = settings.learning_rate * warm_up * (1 - progress) ** settings.decay_power
        self._optimizer.zero_grad(set_to_none=True)
        tasks = self._sampler.batch(number * settings.batch_size, settings.batch_size)
        own = processes.share_of(settings.batch_size)
        tasks = tasks if processes.count == 1 else some_tasks(tasks, own)
        loss = self._scorer.model.mean_loss(self._scorer.engine, tasks, settings.negative_threshold, settings.edge_dropout)
        loss = loss * (own.stop - own.start) / settings.batch_size if processes.count > 1 else loss
        loss.backward()
        total = loss.detach()
        processes.add_up([total, *(param.grad for param in self._scorer.model.parameters() if param.grad is not None)])
        torch.nn.utils.clip_grad_norm_(self._scorer.model.parameters(), settings.gradient_clip)
        self._optimizer.step()
        return float(total)

    def _average(self, averaged: list[Tensor], number: int) -> None:
        """Move the averaged weights towards the present ones."""
        decay = min(self._settings.averaging, (number + 1) / (number + 11))
        torch._foreach_lerp_(averaged, [parameter.detach() for parameter in self._scorer.model.parameters()], 1 - decay)

    @torch.no_grad()
    def _put(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self._scorer.model.parameters(), values, strict=True):
            parameter.copy_(value)

    def measure(self) -> dict[str, Any]:
        """The metrics of dev's tails; of several processes, each ranks a part of them."""
        processes, dev = self._processes, self._dev
        if processes.count > 1 and len(dev):
            rows, found = processes.share_of(len(dev)), torch.zeros(2, len(dev), dtype=torch.float64)
            own = rank_answers(self._scorer.compact_scores, dev[rows], self._known, num_entities=self._scorer.num_entities)
            found[:, rows] = torch.from_numpy(np.stack([own.optimistic, own.pessimistic]))
            processes.add_up([found])
            return as_dev_metrics(Ranks(dev, *found.numpy()))
        return dev_metrics(self._scorer.compact_scores, self._dev, self._known, self._scorer.num_entities)

    def state(self) -> dict[str, Tensor]:
        """The optimizer's state, and the weights that learn."""
        names = [name for name, _ in self._scorer.model.named_parameters()]
        state = {f"live.{name}": value for name, value in zip(names, self._live, strict=True)}
        for name, parameter in self._scorer.model.named_parameters():
            state |= {f"optimizer.{name}.{key}": value for key, value in self._optimizer.state[parameter].items()}
        return state

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` gave."""
        named = dict(self._scorer.model.named_parameters())
        self._live = [state[f"live.{name}"].reshape(parameter.shape).clone() for name, parameter in named.items()]
        for name, parameter in named.items():
            prefix = f"optimizer.{name}."
            values = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
            if values:
                self._optimizer.state[parameter] = {
                    key: value.reshape(()) if key == "step" else value.reshape(parameter.shape).clone()
                    for key, value in values.items()
                }
