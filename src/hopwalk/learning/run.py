"""A run on disk: a folder with settings, data, weights, history, metrics and a card. Nothing in it is code; writes are atomic.

| file | what it holds |
|---|---|
| `run.json` | what kind of run it is, of which data (its fingerprint), how far it has come, how its scores become probabilities |
| `settings.toml` | every setting; usable as a preset |
| `dataset.safetensors` | vocabularies and facts |
| `weights.safetensors` | the parameters of the best epoch |
| `checkpoint.safetensors` | what it takes to go on with training; gone once training is finished |
| `history.jsonl` | one line per evaluated epoch |
| `evaluation-SPLIT.json` | what `hopwalk evaluate` found |
| `card.md` | a short description for people |
"""

from __future__ import annotations

import json
import platform
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hopwalk.config.settings import BEFORE, Settings, load_settings, settings_toml
from hopwalk.data.dataset import Dataset
from hopwalk.errors import RunError, SettingsError
from hopwalk.utils.arrays import ArrayFile, atomic_path, save_arrays

FORMAT = 1
BEGUN = re.compile(r"dataset\.safetensors|settings\.toml|\.(dataset\.safetensors|settings\.toml|run\.json)\.[0-9a-f]{16}")
NOT_A_RUN = "Give the folder that `hopwalk train … --out FOLDER` wrote, or train it again."


@dataclass(frozen=True)
class Run:
    """A run folder. What it says of itself is read when asked for, and checked."""

    path: Path

    @staticmethod
    def create(path: Path, dataset: Dataset, settings: Settings, about: Mapping[str, Any]) -> Run:
        """A new run folder; `about` says more than the data set and the settings do."""
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
        """The run of a folder; an error if there is none."""
        run = Run(Path(path))
        if run.about.get("format") != FORMAT or not isinstance(run.about.get("kind"), str):
            raise RunError("this run was written by another version of hopwalk", path=path, remedy="Train it again.")
        return run

    @property
    def dataset_path(self) -> Path:
        """Where the data set is."""
        return self.path / "dataset.safetensors"

    @property
    def weights_path(self) -> Path:
        """Where the best parameters are."""
        return self.path / "weights.safetensors"

    @property
    def checkpoint_path(self) -> Path:
        """Where that is which training can go on from."""
        return self.path / "checkpoint.safetensors"

    @property
    def about(self) -> dict[str, Any]:
        """The content of `run.json`."""
        return self.read_json("run.json")

    def write_about(self, about: Mapping[str, Any]) -> None:
        """Replace the content of `run.json`."""
        self.write_json("run.json", about)

    @cached_property
    def settings(self) -> Settings:
        """The settings the run was made with."""
        path = self.path / "settings.toml"
        try:
            return load_settings(path, suited=BEFORE)
        except SettingsError as error:
            raise RunError(f"the settings cannot be used ({error.problem})", path=path, remedy=NOT_A_RUN) from None

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

    def require_same_data(self, dataset: Dataset) -> None:
        """An error if the data set is not the one of this run."""
        own = self.about.get("dataset")
        if not isinstance(own, dict) or own.get("fingerprint") != dataset.fingerprint:
            name = own.get("name") if isinstance(own, dict) else "unknown"
            raise RunError(
                f"the run was trained on other data ({name}) than {dataset.name}: their labels or facts differ",
                path=self.path,
                remedy="Use the data set it was trained on, or train a run on this one.",
            )

    def read_json(self, name: str) -> dict[str, Any]:
        """The JSON object in one of the run's files."""
        path = self.path / name
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            problem = "there is no such folder" if not self.path.exists() else f"this folder is no run: {name} is missing"
            raise RunError(problem, path=self.path, remedy=NOT_A_RUN) from None
        except NotADirectoryError:
            raise RunError("this is a file, not the folder of a run", path=self.path, remedy=NOT_A_RUN) from None
        except (OSError, ValueError) as error:
            raise RunError(f"the file is damaged or cannot be read ({error})", path=path, remedy=NOT_A_RUN) from None
        if not isinstance(content, dict):
            raise RunError("the file is damaged: it holds no JSON object", path=path, remedy=NOT_A_RUN)
        return content

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write one of the run's files, whole or not at all."""
        write_text(self.path / name, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")

    def write_history(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Replace the history."""
        write_text(self.path / "history.jsonl", "".join(json.dumps(record) + "\n" for record in records))

    def add_to_history(self, record: Mapping[str, Any]) -> None:
        """One more line of history."""
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
    """An error if a new run cannot go there; with `resume`, it can where one was killed before it had its `run.json`."""
    if (path / "run.json").exists():
        remedy = "Go on with it with --resume (resume=True), or choose another folder."
        raise RunError("there is a run in this folder already", path=path, remedy=remedy)
    if resume and _is_just_begun(path):
        return
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RunError("this is no empty folder", path=path, remedy="Choose another one for the run.")


def _is_just_begun(path: Path) -> bool:
    """Whether a folder has nothing but what `Run.create` writes before `run.json`. Settings alone are somebody's preset."""
    names = {file.name for file in path.iterdir()} if path.is_dir() else set()
    return bool(names) and names != {"settings.toml"} and all(BEGUN.fullmatch(name) for name in names)


def copy_run(source: Path, target: Path) -> None:
    """Copy a run, without its checkpoint; `run.json` last, so that a folder that has it is whole."""
    leave_out = shutil.ignore_patterns("checkpoint.*", "tensorboard", "run.json")
    shutil.copytree(source, target, ignore=leave_out, dirs_exist_ok=True)
    for part in [source, *(found.parent for found in source.rglob("*/run.json"))][::-1]:
        write_text(target / part.relative_to(source) / "run.json", (part / "run.json").read_text(encoding="utf-8"))


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
