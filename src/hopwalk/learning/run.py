"""A run on disk: a folder with settings, data, weights, history, metrics and a card. Nothing in it is code; writes are atomic.

| file | content |
|---|---|
| `run.json` | kind of run, fingerprint of its data, status, outcome of training, calibration of scores |
| `settings.toml` | every setting; usable as a preset |
| `dataset.safetensors` | vocabularies and facts |
| `weights.safetensors` | the parameters of the best epoch |
| `checkpoint.safetensors` | the state to resume training from; removed when training is finished |
| `history.jsonl` | one line per evaluated epoch |
| `evaluation-SPLIT.json` | the output of `hopwalk evaluate` |
| `faithfulness-SPLIT.json` | the output of `hopwalk evaluate --faithfulness`; its chart is beside it, as SVG |
| `card.md` | a short description for people |
"""

from __future__ import annotations

import json
import platform
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hopwalk.config.loading import load_run_settings, settings_toml
from hopwalk.config.settings import Settings
from hopwalk.data.dataset import Dataset
from hopwalk.errors import DataError, RunError, SettingsError
from hopwalk.utils.arrays import ArrayFile, atomic_path, save_arrays
from hopwalk.utils.text import fold_name

FORMAT = 1
BEGUN = re.compile(r"dataset\.safetensors|settings\.toml|\.(dataset\.safetensors|settings\.toml|run\.json)\.[0-9a-f]{16}")
FINISHED, INTERRUPTED, TRAINING = "finished", "interrupted", "training"  # status of a run
NOT_A_RUN = "Give a folder written by `hopwalk train`, or train it again."


@dataclass(frozen=True)
class Run:
    """A run folder. Its files are read when needed, and checked."""

    path: Path

    @staticmethod
    def find(path: Path, dataset: Dataset, settings: Settings, *, kind: str, groups: Sequence[str]) -> Run | None:
        """The run in a folder, to be resumed; None if there is none.

        An error if it is of another kind, of other data, or was begun with other settings in these groups.
        """
        if not (path / "run.json").exists():
            return None
        run = Run.open(path)
        run.require_kind(kind)
        run.require_same_data(dataset)
        run.require_same_settings(settings, groups)
        return run

    @staticmethod
    def begin(
        path: Path,
        dataset: Dataset,
        settings: Settings,
        *,
        kind: str,
        resume: bool = False,
        about: Mapping[str, Any] | None = None,
    ) -> Run:
        """A new run in an empty folder, or with `resume` in one whose run was killed before it had its `run.json`."""
        refuse_used_folder(path, resume=resume)
        return Run.create(path, dataset, settings, {"kind": kind, "status": TRAINING, **(about or {})})

    @staticmethod
    def create(path: Path, dataset: Dataset, settings: Settings, about: Mapping[str, Any]) -> Run:
        """Write the files that every run begins with; `run.json` is last."""
        run = Run(path)
        path.mkdir(parents=True, exist_ok=True)
        for half_written in [file for file in path.glob(".*") if BEGUN.fullmatch(file.name)]:
            half_written.unlink()
        dataset.save(run.dataset_path)
        write_text(path / "settings.toml", settings_toml(settings))
        own = {
            "format": FORMAT,
            "hopwalk": version("hopwalk"),
            "machine": f"{platform.system()} {platform.machine()}",
            "dataset": {"name": dataset.name, "fingerprint": dataset.fingerprint},
        }
        run.write_about(own | dict(about))
        return run

    @staticmethod
    def open(path: str | Path) -> Run:
        """The run in a folder; an error if there is none."""
        run = Run(Path(path))
        if run.about.get("format") != FORMAT or not isinstance(run.about.get("kind"), str):
            raise RunError("the run was written by another version of hopwalk", path=path, remedy="Train it again.")
        return run

    @property
    def dataset_path(self) -> Path:
        """The file of the data set."""
        return self.path / "dataset.safetensors"

    @property
    def weights_path(self) -> Path:
        """The file of the best parameters."""
        return self.path / "weights.safetensors"

    @property
    def checkpoint_path(self) -> Path:
        """The file that training resumes from."""
        return self.path / "checkpoint.safetensors"

    @property
    def about(self) -> dict[str, Any]:
        """The content of `run.json`."""
        return self.read_json("run.json")

    def write_about(self, about: Mapping[str, Any]) -> None:
        """Replace the content of `run.json`."""
        self.write_json("run.json", about)

    @property
    def status(self) -> str:
        """The status of the run: "training", "interrupted" or "finished"."""
        return str(self.about.get("status", ""))

    @property
    def is_finished(self) -> bool:
        """Whether training is finished."""
        return self.status == FINISHED

    @staticmethod
    def is_finished_in(path: Path) -> bool:
        """Whether there is a finished run in a folder."""
        return (path / "run.json").exists() and Run.open(path).is_finished

    @cached_property
    def settings(self) -> Settings:
        """The settings the run was made with."""
        path = self.path / "settings.toml"
        try:
            return load_run_settings(path)
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"the settings cannot be read ({error})", path=path, remedy=NOT_A_RUN) from None
        except SettingsError as error:
            raise RunError(f"the settings cannot be used ({error.problem})", path=path, remedy=NOT_A_RUN) from None

    @property
    def trained_on_valid(self) -> bool:
        """Whether the run was trained on the dev facts too, so that it cannot be evaluated on them."""
        settings = self.settings
        return (settings.walker if self.about["kind"] == "walker" else settings.scorer).train_on_valid

    @cached_property
    def dataset(self) -> Dataset:
        """The data set of the run, if it is still the one it was trained on."""
        dataset = Dataset.load(self.dataset_path)
        self.require_same_data(dataset)
        return dataset

    def require_kind(self, kind: str, *, remedy: str = "") -> None:
        """An error if the run is of another kind."""
        if self.about["kind"] != kind:
            raise RunError(f"this is a run of kind {self.about['kind']!r}, not a {kind}", path=self.path, remedy=remedy)

    def require_same_settings(self, settings: Settings, groups: Sequence[str]) -> None:
        """An error if the run was begun with other settings in these groups; the name of a model may be spelt differently."""
        for group in groups:
            now, then = getattr(settings, group).model_dump(), getattr(self.settings, group).model_dump()
            for name, value in now.items():
                is_same_model = name == "model" and fold_name(value) == fold_name(then[name])
                if value != then[name] and not is_same_model:
                    raise SettingsError(
                        f"the run in {self.path} was begun with {group}.{name} = {then[name]!r}, not {value!r}",
                        remedy="Resume with the same settings, or choose another folder.",
                    )

    def require_dev_unseen(self, split: str, *, remedy: str) -> None:
        """An error if dev is to be ranked by a run that was trained on it."""
        if split == "valid" and self.trained_on_valid:
            raise DataError("the run was trained on the dev set, so it cannot be evaluated on it", path=self.path, remedy=remedy)

    def require_same_data(self, dataset: Dataset) -> None:
        """An error if the data set is not the one of this run."""
        own = self.about.get("dataset")
        if not isinstance(own, dict) or own.get("fingerprint") != dataset.fingerprint:
            name = own.get("name") if isinstance(own, dict) else "unknown"
            raise RunError(
                f"the run was trained on other data ({name}), not on {dataset.name}: labels or facts differ",
                path=self.path,
                remedy="Use the data set it was trained on, or train a run on this one.",
            )

    def read_json(self, name: str) -> dict[str, Any]:
        """The JSON object in one of the run's files."""
        path = self.path / name
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            problem = "there is no such folder" if not self.path.exists() else f"this is not a run folder: {name} is missing"
            raise RunError(problem, path=self.path, remedy=NOT_A_RUN) from None
        except NotADirectoryError:
            raise RunError("this is a file, not a run folder", path=self.path, remedy=NOT_A_RUN) from None
        except (OSError, ValueError) as error:
            raise RunError(f"the file is damaged or cannot be read ({error})", path=path, remedy=NOT_A_RUN) from None
        if not isinstance(content, dict):
            raise RunError("the file is damaged: it does not hold a JSON object", path=path, remedy=NOT_A_RUN)
        return content

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write one of the run's files, whole or not at all."""
        write_text(self.path / name, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")

    def write_history(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Replace the history."""
        write_text(self.path / "history.jsonl", "".join(json.dumps(record) + "\n" for record in records))

    def add_to_history(self, record: Mapping[str, Any]) -> None:
        """Append a line to the history."""
        with (self.path / "history.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    @property
    def history(self) -> list[dict[str, Any]]:
        """One record per evaluated epoch."""
        path = self.path / "history.jsonl"
        if not path.exists():
            return []
        try:
            return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        except ValueError as error:
            raise RunError(f"the history is damaged ({error})", path=path, remedy=NOT_A_RUN) from None

    def save_weights(self, arrays: Mapping[str, Any], model: str) -> None:
        """Write the best parameters of the model of that name."""
        save_arrays(self.weights_path, arrays, {"kind": "weights", "model": model})

    def load_weights(self) -> ArrayFile:
        """The best parameters."""
        return ArrayFile(self.weights_path, kind="weights")


def refuse_used_folder(path: Path, *, resume: bool = False) -> None:
    """Raise an error if the folder has files; with `resume`, files of a run killed before it had its `run.json` are accepted."""
    if (path / "run.json").exists():
        raise RunError("there is already a run in this folder", path=path, remedy="Resume it, or choose another folder.")
    if resume and _is_just_begun(path):
        return
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RunError("the folder is not empty", path=path, remedy="Choose another folder for the run.")


def _is_just_begun(path: Path) -> bool:
    """Whether a folder holds only files that `Run.create` writes before `run.json`. Settings alone may be a preset."""
    names = {file.name for file in path.iterdir()} if path.is_dir() else set()
    return bool(names) and names != {"settings.toml"} and all(BEGUN.fullmatch(name) for name in names)


def copy_run(source: Path, target: Path) -> None:
    """Copy a run without its checkpoint; `run.json` last, so that a folder that has it is complete."""
    ignored = shutil.ignore_patterns("checkpoint.*", "tensorboard", "run.json")
    shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
    for part in [source, *(found.parent for found in source.rglob("*/run.json"))][::-1]:
        write_text(target / part.relative_to(source) / "run.json", (part / "run.json").read_text(encoding="utf-8"))


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
