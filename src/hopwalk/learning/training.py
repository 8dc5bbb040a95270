"""Training of any model into a run folder: epochs, evaluation on dev, early stopping, checkpoints.

The random numbers of an epoch depend on the seed and the number of the epoch only. So a checkpoint holds parameters, the state of
the optimizer and a few numbers, and a resumed run gives the same bits as one that was never interrupted.
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hopwalk.config.migrations import migrated_parameter
from hopwalk.errors import DivergedError
from hopwalk.learning.callbacks import Callback, Forecast
from hopwalk.learning.run import FINISHED, INTERRUPTED, Run
from hopwalk.utils.arrays import ArrayFile, save_arrays
from hopwalk.utils.memory import kept_memory
from hopwalk.utils.products import fast_products

SECONDS_BETWEEN_CHECKPOINTS = 20.0

OnBatch = Callable[[int, int, Mapping[str, float]], None]  # batch (from 1), number of batches, values of the batch


class Learner(ABC):
    """A model, one epoch of its training, and its evaluation on dev.

    `name` is that of the model in the run's files, `remedy` the advice if training diverges.
    """

    name: str
    remedy: str
    model: nn.Module
    seed: int
    epochs: int
    evaluate_every: int
    patience: int
    mean_window: int = 0  # evaluations; above 0, training stops when dev MRR falls below their mean, not by patience

    @abstractmethod
    def learn(self, epoch: int, generator: torch.Generator, on_batch: OnBatch) -> dict[str, float]:
        """Train one epoch; returns means over its batches, including the `loss`."""

    def forecast(self) -> Forecast | None:
        """The memory and the time of training, if they can be told before; called before it begins."""
        return None

    @abstractmethod
    def measure(self) -> dict[str, Any]:
        """The metrics on dev, including `valid_mrr`; empty without dev queries."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """The state that the next epoch depends on, apart from the model's parameters."""

    @abstractmethod
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state that `state` returned."""


@dataclass
class TrainingState:
    """The progress of training, as a checkpoint keeps it."""

    epoch: int = 0
    seconds: float = 0.0
    best_epoch: int = 0
    best_mrr: float = -1.0
    evaluations_without_gain: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


def train(run: Run, learner: Learner, callbacks: Sequence[Callback] = ()) -> dict[str, Any] | None:
    """Train into the run folder, from its checkpoint if there is one; afterwards the model has its best parameters.

    The result is the outcome for `run.json`. Its status is "finished", or "interrupted" if Ctrl-C ended it; either way the
    weights of the best epoch are in the folder. None if Ctrl-C ended a resumed run before it reached its previous best epoch: the
    folder is then unchanged.
    """
    return _Training(run, learner, callbacks).run()


def begin_with(run: Run, learner: Learner, arrays: Mapping[str, Any]) -> None:
    """Write a checkpoint of epoch 0 with these parameters, for training to begin with."""
    load_arrays(learner.model, arrays)
    _Training(run, learner, ()).save_checkpoint()


class _Training:
    def __init__(self, run: Run, learner: Learner, callbacks: Sequence[Callback]) -> None:
        self._folder, self._learner, self._callbacks = run, learner, callbacks
        self._model = learner.model
        self._progress = TrainingState()
        self._best = arrays_of(self._model)
        self._last_checkpoint = time.monotonic()

    def run(self) -> dict[str, Any] | None:
        is_begun = self._resume()
        status = FINISHED
        try:
            if is_begun and not self._progress.history:  # the initial parameters may be the best
                self._evaluate({})
            while not self._is_over():
                self._do_epoch()
        except KeyboardInterrupt:
            status = INTERRUPTED
            if self._folder.about.get("best_epoch", 0) > self._progress.best_epoch:
                return None
        load_arrays(self._model, self._best)
        self._model.eval()
        self._save_best()
        progress = self._progress
        return {
            "status": status,
            "epochs": progress.epoch,
            "best_epoch": progress.best_epoch,
            "seconds": round(progress.seconds, 2),
            "threads": torch.get_num_threads(),
            "peak_memory_bytes": peak_memory_bytes(),
            "valid_mrr": progress.best_mrr if progress.history and "valid_mrr" in progress.history[-1] else None,
        }

    def _save_best(self) -> None:
        self._folder.save_weights(self._best, self._learner.name)

    def _is_over(self) -> bool:
        learner, progress = self._learner, self._progress
        if progress.epoch >= learner.epochs:
            return True
        if learner.mean_window:
            return is_below_mean([record.get("valid_mrr", 0.0) for record in progress.history], learner.mean_window)
        return progress.evaluations_without_gain >= learner.patience

    def _do_epoch(self) -> None:
        epoch, start = self._progress.epoch + 1, time.perf_counter()
        self._model.train()
        generator = torch.Generator().manual_seed(_seed_of_epoch(self._learner.seed, epoch))
        with fast_products(), kept_memory():
            means = self._learner.learn(epoch, generator, lambda *values: self._on_batch(epoch, *values))
        self._progress.epoch = epoch
        self._progress.seconds += time.perf_counter() - start
        if epoch % self._learner.evaluate_every == 0 or epoch == self._learner.epochs:
            self._evaluate(means)
            if time.monotonic() - self._last_checkpoint >= SECONDS_BETWEEN_CHECKPOINTS:
                self.save_checkpoint()

    def _on_batch(self, epoch: int, batch: int, num_batches: int, values: Mapping[str, float]) -> None:
        if not np.isfinite(values["loss"]):
            raise DivergedError(f"training diverged: the loss is {values['loss']} in epoch {epoch}", remedy=self._learner.remedy)
        for callback in self._callbacks:
            callback.on_batch(epoch, batch, num_batches, values)

    def _evaluate(self, means: Mapping[str, float]) -> None:
        """Evaluate on dev, keep the parameters if they are the best so far, and add a record to the history."""
        progress, start = self._progress, time.perf_counter()
        self._model.eval()
        record = {"epoch": progress.epoch, **means, "seconds": round(progress.seconds, 3), **self._learner.measure()}
        mrr = record.get("valid_mrr", float(progress.epoch))  # without dev queries the last epoch is the best
        progress.evaluations_without_gain += 1
        if mrr > progress.best_mrr:
            progress.best_epoch, progress.evaluations_without_gain = progress.epoch, 0
            progress.best_mrr = mrr
            self._best = arrays_of(self._model)
            if not all(np.isfinite(array).all() for array in self._best.values()):
                problem = f"training diverged: parameters are not finite after epoch {progress.epoch}"
                raise DivergedError(problem, remedy=self._learner.remedy)
        record["evaluation_seconds"] = round(time.perf_counter() - start, 3)
        progress.history.append(record)
        self._folder.add_to_history(record)
        for callback in self._callbacks:
            callback.on_evaluation(record)

    def save_checkpoint(self) -> None:
        """Write the checkpoint."""
        # The best parameters first: if training is killed between the two files, the epochs since the last checkpoint are
        # repeated and give the same best parameters.
        self._save_best()
        state = {f"learner.{name}": value.numpy() for name, value in self._learner.state().items()}
        parameters = {f"model.{name}": value for name, value in arrays_of(self._model).items()}
        save_arrays(self._folder.checkpoint_path, state | parameters, {"kind": "checkpoint", "progress": asdict(self._progress)})
        self._last_checkpoint = time.monotonic()

    def _resume(self) -> bool:
        """Restore the checkpoint, if there is one."""
        if is_begun := self._folder.checkpoint_path.exists():
            file = ArrayFile(self._folder.checkpoint_path, kind="checkpoint")
            try:
                self._progress = TrainingState(**file.metadata["progress"])
            except (KeyError, TypeError):
                file.require(False, "its progress cannot be read")
            parameters, state = (self._part(file, prefix) for prefix in ("model.", "learner."))
            check_arrays(self._model, parameters, file)
            load_arrays(self._model, parameters)
            self._learner.load_state({name: torch.from_numpy(array) for name, array in state.items()})
            self._best = best_arrays(self._folder, self._model, self._learner.name)
        self._folder.write_history(self._progress.history)
        return is_begun

    def _part(self, file: ArrayFile, prefix: str) -> dict[str, Any]:
        names = {migrated_parameter(self._learner.name, name): name for name in file.names}
        return {name.removeprefix(prefix): file.array(old) for name, old in names.items() if name.startswith(prefix)}


def is_below_mean(mrrs: Sequence[float], window: int) -> bool:
    """Whether the last of these is below the mean of the last `window`, it included; never before there are so many.

    >>> is_below_mean([0.3, 0.5], 3), is_below_mean([0.3, 0.5, 0.6], 3), is_below_mean([0.3, 0.5, 0.6, 0.4], 3)
    (False, False, True)
    """
    last = mrrs[-window:]
    return len(last) == window and last[-1] < sum(last) / window


def peak_memory_bytes() -> int | None:
    """The peak memory of this process, where the system reports it."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _seed_of_epoch(seed: int, epoch: int) -> int:
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def arrays_of(model: nn.Module) -> dict[str, Any]:
    """A copy of all parameters and buffers, by name."""
    return {name: value.detach().numpy().copy() for name, value in model.state_dict().items()}


def load_arrays(model: nn.Module, arrays: Mapping[str, Any]) -> None:
    """Set the parameters and buffers of the model."""
    with torch.no_grad():
        for name, value in model.state_dict().items():
            value.copy_(torch.from_numpy(np.array(arrays[name])).reshape(value.shape))


def check_arrays(model: nn.Module, arrays: Mapping[str, Any], file: ArrayFile) -> None:
    """Raise an error unless the arrays of the file fit the model."""
    expected: dict[str, Tensor] = model.state_dict()
    file.require(set(expected) == set(arrays), "its parameters are not those of the model")
    for name, value in expected.items():
        array, shape = arrays[name], tuple(value.shape) or (1,)  # safetensors have at least one dimension
        file.require(array.shape == shape, f"the shape of {name} is not that of the model")
        file.require(array.dtype == value.numpy().dtype, f"the type of {name} is not that of the model")
        file.require(array.dtype.kind != "f" or np.isfinite(array).all(), f"{name} has values that are not finite")


def best_arrays(run: Run, model: nn.Module, name: str) -> dict[str, Any]:
    """The parameters of the run's best epoch; an error unless they fit the model of that name."""
    file = run.load_weights()
    file.require(file.metadata.get("model") == name, f"it does not hold the weights of {name}")
    arrays = {migrated_parameter(name, key): file.array(key) for key in file.names}
    check_arrays(model, arrays, file)
    return arrays
