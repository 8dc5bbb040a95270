"""Trials on a cluster, several at once. Optuna stays here: it is asked for a trial when a CPU is free, and told its end."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopwalk.data.dataset import Dataset
from hopwalk.errors import DivergedError
from hopwalk.learning.callbacks import MakeCallbacks
from hopwalk.learning.run import Run
from hopwalk.utils.packing import Packed, replace_folder
from hopwalk.utils.places import Place, Report
from hopwalk.walker.remote import EndedEarlyError, EvaluationReport, Replayed, Training, packed_run, train_at

if TYPE_CHECKING:
    from hopwalk.tuning.study import Search


@dataclass(frozen=True)
class TrialWork:
    """Trains trials; made once per process."""

    dataset: Dataset

    def __call__(self) -> Callable[[Training, Report], Packed | None]:
        """The function that trains one."""
        return self._train

    def _train(self, training: Training, report: Report) -> Packed | None:
        """The files of the run, finished or interrupted; None if it was pruned or diverged."""
        with tempfile.TemporaryDirectory(prefix="hopwalk-") as root:
            try:
                run = train_at(Path(root), training, self.dataset, report)
            except (EndedEarlyError, DivergedError):
                return None
            return packed_run(run.path)


def run_trials_at(
    place: Place,
    search: Search,
    dataset: Dataset,
    make_seed: Callable[[int], int],
    trials: int,
    on_trial: Callable[[int, int, Mapping[str, Any]], None],
    make_callbacks: MakeCallbacks,
) -> bool:
    """Run trials at a place until the study has so many; False if Ctrl-C ended it."""
    asked: dict[str, Any] = {}
    show = Replayed(make_callbacks)

    def pieces() -> Iterator[Training]:
        while (begun := len(search.done) + len(asked)) < trials:
            trial, values, folder = search.ask(make_seed(begun), at_once=True)
            asked[folder.name] = trial, folder, search.pruning(trial, folder)
            on_trial(begun + 1, trials, values)
            yield search.training(folder, values)

    def on_report(training: Training, report: Any) -> bool:
        show(training, report)
        return isinstance(report, EvaluationReport) and asked[training.name][2].should_end(report.record)

    try:
        for training, files in place.run(TrialWork(dataset), pieces(), on_report):
            trial, folder, _ = asked.pop(training.name)
            if files is None:
                search.tell(trial, None)
                continue
            replace_folder(files, folder)
            run = Run.open(folder)
            if run.is_finished:  # else it was interrupted, and is resumed the next time
                search.tell(trial, run)
    except KeyboardInterrupt:
        return False
    return True
