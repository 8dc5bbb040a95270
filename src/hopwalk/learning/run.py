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
| `digests.json` | the SHA-256 of each file; one that was changed is refused |
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hopwalk.config.loading import load_run_settings, settings_toml
from hopwalk.config.settings import Settings
from hopwalk.data.dataset import Dataset
from hopwalk.errors import DataError, RunError, SettingsError
from hopwalk.learning import digests
from hopwalk.utils.arrays import ArrayFile, saving
from hopwalk.utils.files import (
    append_text,
    copy_file,
    digest_of,
    locked,
    parse_json,
    prepared,
    read_bytes,
    remove,
    storing,
    write_bytes,
)
from hopwalk.utils.text import fold_name

FORMAT = 1
BEGUN = re.compile(
    r"dataset\.safetensors|settings\.toml|digests\.json|"
    r"\.(dataset\.safetensors|settings\.toml|run\.json|digests\.json)\.[0-9a-f]{16}"
)
SECONDS_FOR_LOCK = 10.0  # that a command which adds a file waits for another that does
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
        for half_written in [file for file in path.glob(".*") if BEGUN.fullmatch(file.name)]:
            remove(half_written)
        remove(path / digests.DIGESTS)
        dataset.save(run.dataset_path)
        run.write_text("settings.toml", settings_toml(settings))
        own = {
            "format": FORMAT,
            "hopwalk": version("hopwalk"),
            "machine": f"{platform.system()} {platform.machine()}",
            "dataset": {"name": dataset.name, "fingerprint": dataset.fingerprint},
        }
        digests.state_all(path)
        run.write_about(own | dict(about))
        return run

    @staticmethod
    def open(path: str | Path) -> Run:
        """The run in a folder; an error if there is none."""
        run = Run(Path(path))
        if run.about.get("format") != FORMAT or not isinstance(run.about.get("kind"), str):
            raise RunError("the run was written by another version of hopwalk", path=path, remedy="Train it again.")
        _require_description(run.about, run.path)
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
    def digest(self) -> str:
        """The SHA-256 of what its answers come from: the description, settings and weights of this run and of those inside it."""
        names = {"run.json", "settings.toml", self.weights_path.name}
        files = sorted(path for path in self.path.rglob("*") if path.name in names)
        stated = [f"{path.relative_to(self.path).as_posix()} {digest_of(path)}\n" for path in files]
        return hashlib.sha256("".join(stated).encode()).hexdigest()

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
            settings = load_run_settings(path)
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"the settings cannot be read ({error})", path=path, remedy=NOT_A_RUN) from None
        except SettingsError as error:
            raise RunError(f"the settings cannot be used ({error.problem})", path=path, remedy=NOT_A_RUN) from None
        digests.verify(self.path, path.name)
        return settings

    @property
    def trained_on_valid(self) -> bool:
        """Whether the run was trained on the dev facts too, so that it cannot be evaluated on them."""
        settings = self.settings
        return (settings.walker if self.about["kind"] == "walker" else settings.scorer).train_on_valid

    @cached_property
    def dataset(self) -> Dataset:
        """The data set of the run, if it is still the one it was trained on."""
        dataset = Dataset.load(self.dataset_path)
        digests.verify(self.path, self.dataset_path.name)
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

    def read_json(self, name: str, *, is_verified: bool = True) -> dict[str, Any]:
        """The JSON object in one of the run's files."""
        path = self.path / name
        try:
            read = read_bytes(path)
            content = parse_json(read)
        except FileNotFoundError:
            problem = "there is no such folder" if not self.path.exists() else f"this is not a run folder: {name} is missing"
            raise RunError(problem, path=self.path, remedy=NOT_A_RUN) from None
        except NotADirectoryError:
            raise RunError("this is a file, not a run folder", path=self.path, remedy=NOT_A_RUN) from None
        except (OSError, ValueError) as error:
            raise RunError(f"the file is damaged or cannot be read ({error})", path=path, remedy=NOT_A_RUN) from None
        if not isinstance(content, dict):
            raise RunError("the file is damaged: it does not hold a JSON object", path=path, remedy=NOT_A_RUN)
        if is_verified:
            digests.verify(self.path, name, read)
        return content

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write one of the run's files, whole or not at all."""
        self.write_text(name, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Write one of the run's files, whole or not at all."""
        content = text.encode()
        with prepared(self.path / name, [content], len(content)) as digest:
            digests.expect(self.path, name, digest)
        digests.confirm(self.path, name, digest)

    def write_history(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Replace the history. Its digest is stated when training ends."""
        digests.forget(self.path, "history.jsonl")
        content = "".join(json.dumps(record) + "\n" for record in records).encode()
        write_bytes(self.path / "history.jsonl", [content], len(content))

    def add_to_history(self, record: Mapping[str, Any]) -> None:
        """Append a line to the history."""
        append_text(self.path / "history.jsonl", json.dumps(record) + "\n")

    @property
    def history(self) -> list[dict[str, Any]]:
        """One record per evaluated epoch."""
        path = self.path / "history.jsonl"
        if not path.exists():
            return []
        try:
            content = read_bytes(path)
            records = [parse_json(line) for line in content.decode().splitlines()]
        except (OSError, ValueError) as error:
            raise RunError(f"the history is damaged ({error})", path=path, remedy=NOT_A_RUN) from None
        digests.verify(self.path, path.name, content)
        return records

    @property
    def card(self) -> str:
        """The description of the run, as Markdown; empty if it has none."""
        path = self.path / "card.md"
        if not path.is_file():
            return ""
        content = read_bytes(path)
        digests.verify(self.path, path.name, content)
        return content.decode(errors="replace")

    def save_weights(self, arrays: Mapping[str, Any], model: str) -> None:
        """Write the best parameters of the model of that name."""
        name = self.weights_path.name
        with saving(self.weights_path, arrays, {"kind": "weights", "model": model}) as (_, digest):
            digests.expect(self.path, name, digest)
        digests.confirm(self.path, name, digest)

    def load_weights(self) -> ArrayFile:
        """The best parameters."""
        file = ArrayFile(self.weights_path, kind="weights")
        digests.verify(self.path, self.weights_path.name)
        return file

    def finish(self, about: Mapping[str, Any]) -> None:
        """Write the outcome of training into `run.json`, last, so that a run that is called finished is complete."""
        digests.state_all(self.path)
        self.write_about(about)
        if about["status"] == FINISHED:
            remove(self.checkpoint_path)

    @contextmanager
    def adding(self) -> Iterator[None]:
        """Hold the lock of the folder to add a file to it, such as an evaluation; training holds it all the time."""
        with locked(self.path, wait_seconds=SECONDS_FOR_LOCK):
            yield

    @property
    def states_digests(self) -> bool:
        """Whether the run states the digests of its files. Runs of older versions do not: edits of them go unnoticed."""
        return digests.are_stated(self.path)

    def accept(self) -> int:
        """State the digests of all files as they are now, of this run and of those inside it; returns how many.

        An error if what was edited cannot be read.
        """
        self.read_json("run.json", is_verified=False)  # an error, before anything is made, if this is not a run
        inner = [Run(found.parent) for found in sorted(self.path.rglob("*/run.json"))]
        with self.adding():
            count = sum(digests.state_all(run.path, again=True) for run in (self, *inner))
        for run in (self, *inner):
            load_run_settings(run.path / "settings.toml")
        return count


def _require_description(about: Mapping[str, Any], path: Path) -> None:
    """Raise an error if what every `run.json` says is missing, or if what some say is of another type."""
    data = about.get("dataset")
    texts = [about.get(name) for name in ("hopwalk", "machine", "status")]
    texts += [data.get(name) for name in ("name", "fingerprint")] if isinstance(data, dict) else [None]
    numbers = [about.get(name, 0) for name in ("epochs", "best_epoch", "seconds")]
    names = about.get("members", [])
    if not (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(number, int | float) and number >= 0 for number in numbers)
        and isinstance(names, list)
        and all(isinstance(name, str) for name in names)
    ):
        problem = "run.json is damaged: it does not describe the run, its data or its training"
        raise RunError(problem, path=path, remedy=NOT_A_RUN)


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
    ignored = shutil.ignore_patterns("checkpoint.*", "tensorboard", "run.json", ".*")
    with storing(target):
        shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True, copy_function=copy_file)
    for part in [source, *(found.parent for found in source.rglob("*/run.json"))][::-1]:
        copy_file(part / "run.json", target / part.relative_to(source) / "run.json")
